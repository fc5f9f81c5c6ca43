import { readExpectation } from '../../test/support/init-score/schemas.ts'
import { SCORED_KINDS, readScores, type ScoreFigures } from '../../test/support/init-score/scores.ts'
import { formatCount, formatPercent } from '../../src/util/format.ts'
import { table } from './table.ts'

const scores = Object.entries(readScores())
const expectations = new Map(
  await Promise.all(scores.map(async ([name]) => [name, await readExpectation(name)] as const)),
)

/** docs/init.md, with the scores that the tests measured. */
export const initPage = (): string => `# The proposal of init

\`fillrate init\` reads the catalogue and at most 200 rows of each table (1,000 to count what divides the rows of a source, 2,000 for
the labels of lists), proposes sources, and writes them into \`fillrate.config.ts\`. Of more than 200 tables it reads those whose names
and columns are most like people and companies, then those that have to do with them. It writes nothing to the database and keeps no
value of a row but the labels of lists, which stand in the \`map\` of a column.

It is to do no harm first, and to find much second: no row that must be left out, no value that the column's users would not
write. What it does not know is a question.

**A file that no person has read looks up no person.** What was not confirmed at the prompts, because there was no terminal, or with
\`--yes\`, has the line \`reviewed: false\`: \`check\` and \`plan\` treat it as any other source; a run, a dry run and live sync leave it out
and say why, until a person takes the line out. Where every source has it, they end with exit code 2.

## What it looks at

- **Tables** by their names, or by columns and values alone, whatever they are called: people, companies, both in one table; a table beside
  a mirror that is not written, by the key of the mirror's rows. Questions are your own staff, users who sign in, tenants, members of
  lists, applicants beside contacts, guests, suppliers, raw loads, tables of addresses of which nothing else is known, and smaller tables
  whose name does not say what their rows are. Left are lists of objections, orders, logs, copies, and addresses of companies in a table
  of their own, which may be those of deliveries. Names may be in English, German, French, Spanish, Italian, Portuguese, Dutch,
  Polish or a Nordic language, with or without accents: \`src/init/vocabulary.ts\` is the table of words, to be extended.
- **Inputs** by names and values: an e-mail column, or a table of addresses where that is blank; a profile; name and company, through
  the key that most rows have or a link table; a site, or the host of the address. Keys need not be declared: those that hold in the
  sample are keys.
- **Outputs** by name, type and form of the values. A column of few texts is a list: it is written through a \`map\` to labels that
  it holds, whether a constraint says so or not; a comment such as \`A: active, L: left\` explains codes. Amounts in thousands or
  cents, lists inside a text and labels that are not understood are comments.
- **Rows to leave out**: deleted, archived, merged, converted and test rows; objections and missing consents, as flag, date, letter,
  label, key in JSON, tag (in an array, JSON or a table), list, or row of another table; private persons and households; your own staff; people of a company that
  objected; rows of a tenant that is a sandbox or has left.
- **Freshness**: a column that holds the time of the last enrichment.

With \`--service ./my-service.ts\` the [service of your own](services.md) decides: only inputs that it takes, and its fields, found by
their names or the last parts of their paths.

Name tables to propose them in any case: \`fillrate init crm.contacts\`. \`fillrate init --explain crm.contacts\` says of each column
what it was taken for, and writes nothing. Then run \`fillrate check\` and \`fillrate plan\`, which are free, and a
\`fillrate run --dry-run\`.

## Questions

At most seven. The first is which tables are meant: those that it proposes are marked, and beside them stand at most seven others that
hold people or companies, with the reason for which they are left unless you name them.

Then, for each of the six largest sources, which rows must be left out. Whatever divides its rows may be a reason: a flag, a date or a key
that few rows have, a label of a short list, a tag, a table in which few of them are listed, an address that is also a user's, other
tenants, and what their company or their tenant is marked with. These are the choices of one question, at most sixteen, each with the number
of sampled rows (of at most 1,000) that it would leave out: what is not understood first, then what is.

- **Left out until you decide** (✗): what looks like a reason by its name, and of the rest what few rows have: at most 30% of them by
  one column, 20% by what other tables say, 10% by tags.
- **Read until you decide**: what more rows have. Most rows are not a reason against themselves: what over half of them have is no choice.
- Beyond the sixteen, what looks like a reason by its name is left out and the rest is read; a comment names what is not sure. Of each source
  64 are counted; a comment says how many more there are.

On a terminal Enter takes what is marked. Without one, the choices stand in the file as comments beside \`where\`, and the tables that may be
meant above all sources. Read them before you take \`reviewed: false\` out: rows that belong in it may wait there.

## Schemas that repeat

Where schemas have the same tables, as those of tenants do, the file has one function of the schema, and a call of it for each. What
an older schema lacks is written as it is.

## Rights

\`init\` says the same with the least rights as with all: it knows the names of tables and columns that it may not read. Those that
decide who is left out (consents, suppressions, the tenants that rows belong to, what else a source refers to) it names first, with
the reason, and in the file; people and companies among the skipped tables. Schemas named \`backup\`, \`archive\`, \`old\` or \`test\` are set
aside. At the end it prints the statements to paste: what to read, and the columns that look suitable and may not be updated.
Of a table that shows the role no row, though policies of row-level security may hide some, it proposes nothing and prints the policies. Addresses that live
behind a key in another schema need no right to the whole table:

\`\`\`sql
grant usage on schema accounts to fillrate_app;
grant select (id, email, deleted_at) on accounts.users to fillrate_app;
\`\`\`

\`auth.users\` of Supabase has row-level security without a policy: [a view](guides/supabase.md#3-addresses-in-authusers) opens it.

## What makes an input invalid

A row is looked up by its first valid input. These are not, and cost nothing:

${table(
  ['input', 'invalid', 'valid, though it looks odd'],
  [
    [
      '`email`',
      'no `@`, several addresses, white space inside, a quoted part before the `@`, a host without a dot, an IP address, over 254 characters',
      'letters beyond ASCII before the `@` and in the host, free-mail hosts, a plus sign, any case',
    ],
    [
      '`linkedin_url`',
      'pages of companies and schools, other networks, a search',
      'a handle after `/in/`, with or without `https://`, any language’s subdomain',
    ],
    [
      '`name` with `company`',
      'one of them is missing, has no letter or digit, or is over 200 characters',
      'one word, any alphabet',
    ],
    [
      '`domain`',
      'free-mail hosts (`gmail.com`), social hosts (`facebook.com/acme`), public suffixes (`co.uk`), an e-mail address, a list, an IP address, `localhost`',
      'a whole URL, with or without `www.`, a subdomain, letters beyond ASCII',
    ],
  ],
)}

## What to change in the file

- **\`policy\`**: \`blank\`, the default, fills a column once. \`tracked\` keeps what Fillrate wrote up to date when the inputs of
  the row change or a record is refreshed; use it where people do not type into the column.
- **\`minConfidence\`**: none is proposed, because each service measures its confidence in its own way. Look at the
  confidence in a dry run, which would be written, and set it by source or column.
- **\`key\`**: the primary key, or a unique index. A key must stay the same for a row's life: a number that a nightly load
  assigns anew is none. \`fillrate check\` counts the rows with NULL in the \`key\`: they are never looked up or written.
- **\`budget\`**: 100 lookups, for the first run. \`fillrate plan\` says what all rows would need.

## Score

The proposal is held against schemas that were written apart from it: the tables of a real product or of a firm's own, made-up rows, and
first of all what a careful engineer would map. Counted are inputs, outputs and reasons to leave rows out (freshness among them): found,
of those expected. Inputs and reasons are compared by the values and rows that they yield, after each question was answered as a person
does who knows the tables and the rows. "Looked up" counts the rows that must not be and would be: "unread" if a person confirmed the file without having answered or read
anything, "answered" if the questions were answered and nothing else was read; "waiting" those that belong in it and are left out until then. Each file is run: as it is, which calls nothing; then, confirmed like that, check, a dry run, a run, a second run, undo, and each
written cell is judged.

${unseenScores()}

\`UPDATE_SCORES=1 npm run test:schemas -- --no-file-parallelism\` measures again, and \`npm run docs\` writes this page; the tests fail
if a score falls.
`

type Kind = (typeof SCORED_KINDS)[number]

const share = ({ found, expected }: ScoreFigures[Kind]): string => `${found} of ${expected}`

/** What `init` found in the last schemas that were kept from it: the only figures that say how it does on others. */
function unseenScores(): string {
  const [last = 0, ...earlier] = GROUPS
  const unseen = membersOf(last)
  const rows = unseen.map(([name, { first }]) => {
    const { title, holds } = expectations.get(name) ?? { title: name, holds: '' }
    return [title, holds, ...figuresOf(first)]
  })
  const all = firstOf(last)
  return [
    table(
      [
        'schema',
        'what it holds',
        'inputs',
        'outputs',
        'left out',
        'wrong lines',
        'looked up, unread',
        'looked up, answered',
        'waiting',
      ],
      [...rows, ['all', '', ...figuresOf(all, true)]],
    ),
    '',
    `These are the figures of the first sight of ${unseen.length} schemas: what to expect of yours. Since then it has learnt from them what`,
    `others have, too. It has learnt from the ${scores.length - unseen.length} others, so that their later figures say nothing: the tests only see that it`,
    `finds no less. What it found in earlier groups at first sight, the latest first:`,
    '',
    table(
      ['schemas', 'inputs', 'outputs', 'left out', 'wrong lines'],
      earlier.map((group) => [
        String(membersOf(group).length),
        ...figuresOf(firstOf(group), true).slice(0, 4),
      ]),
    ),
  ].join('\n')
}

/** Groups of schemas that were kept from `init` until it was finished, the last first: after each it was changed. Two before were no such groups. */
const GROUPS = [...new Set(scores.flatMap(([, { heldOut = 0 }]) => (heldOut > 2 ? heldOut : [])))].toSorted(
  (a, b) => b - a,
)
const membersOf = (group: number): typeof scores => scores.filter(([, { heldOut }]) => heldOut === group)
const firstOf = (group: number): First => total(membersOf(group).map(([, { first }]) => first))

type First = (typeof scores)[number][1]['first']

const figuresOf = (figures: First, withShare = false): string[] => [
  ...SCORED_KINDS.map((kind) =>
    withShare
      ? `${share(figures[kind])}, ${formatPercent(figures[kind].found / Math.max(1, figures[kind].expected))}`
      : share(figures[kind]),
  ),
  formatCount(countWrong(figures)),
  ...[figures.harmed, figures.overlooked, figures.waiting].map(
    (some) => `${formatCount(some?.rows ?? 0)} of ${formatCount(some?.of ?? 0)}`,
  ),
]

const countWrong = (figures: First): number =>
  SCORED_KINDS.reduce((sum, kind) => sum + figures[kind].wrong, 0)

function total(all: readonly First[]): First {
  const sum = (pick: (figures: First) => number): number =>
    all.reduce((total, figures) => total + pick(figures), 0)
  const add = (kind: Kind): ScoreFigures[Kind] => ({
    expected: sum((one) => one[kind].expected),
    found: sum((one) => one[kind].found),
    wrong: sum((one) => one[kind].wrong),
  })
  const rowsOf = (name: 'harmed' | 'overlooked' | 'waiting'): ScoreFigures[typeof name] => ({
    rows: sum((one) => one[name]?.rows ?? 0),
    of: sum((one) => one[name]?.of ?? 0),
  })
  return {
    inputs: add('inputs'),
    outputs: add('outputs'),
    filters: add('filters'),
    harmed: rowsOf('harmed'),
    overlooked: rowsOf('overlooked'),
    waiting: rowsOf('waiting'),
  }
}
