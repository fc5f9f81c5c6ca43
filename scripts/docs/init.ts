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

\`fillrate init\` reads the catalogue and at most 200 rows of each table that may hold people or companies, proposes the
sources that it is sure of, and writes them into \`fillrate.config.ts\`. What it is not sure of stands there commented out,
with the reason. It writes nothing to the database and keeps no value.

## What it looks at

- **Tables** by their names, their columns and sampled values: people, companies, both in one table, addresses of companies.
  Your own staff, application users, tenants, logs and copies are left out.
- **Inputs** by what they yield on sampled rows: an e-mail column or table, a profile, name and company through keys and link
  tables, a site.
- **Outputs** by name, type and form of the values: a column whose values have another form than the service's is left.
- **Rows to leave out**: deleted, archived and inactive ones, those who must not be contacted, staff among the customers.
- **Freshness**: a column that holds the time of the last enrichment.

With \`--service ./my-service.ts\` the [service of your own](services.md) decides: only inputs that it takes, and its fields, found by
their names or the last parts of their paths. A column that has the name of a field and no other meaning is a comment. Where nothing
is recognised, the file has what the service takes, to be completed.

Name tables to propose them in any case: \`fillrate init crm.contacts\`. Then run \`fillrate check\` and \`fillrate plan\`, which
are free, and a \`fillrate run --dry-run\`.

## Score

The proposal is held against real schemas of open-source CRMs and help desks, in their public form, with made-up rows. For
each, \`test/fixtures/schemas\` lists what a careful engineer would map. Counted are inputs, outputs and conditions of rows to
leave out (freshness among them): found, of those expected. Inputs and conditions are compared by the values and rows that
they yield. A line that is commented out counts as not found. The file is then run as it is, unread: check, a dry run, a run,
a second run, undo. Each written cell is judged: its column, its row, and whether the value is of this row's own record.

${scoreTable()}

${heldOutSummaries()}

\`UPDATE_SCORES=1 npm run test:integration -- --no-file-parallelism test/integration/init/real-schemas\` measures again, and
\`npm run docs\` writes this page; the tests fail if a score falls.
`

type Kind = (typeof SCORED_KINDS)[number]

const share = ({ found, expected }: ScoreFigures[Kind]): string => `${found} of ${expected}`

function scoreTable(): string {
  const rows = scores.map(([name, { now, heldOut = 0 }]) => {
    const { title, holds } = expectations.get(name) ?? { title: name, holds: '' }
    return [
      `${title} ${MARKS[heldOut - 1] ?? ''}`.trim(),
      holds,
      ...SCORED_KINDS.map((kind) => share(now[kind])),
      formatCount(countWrong(now)),
      formatCount(now.cells.written),
      formatCount(now.cells.wrong),
    ]
  })
  const all = total(scores.map(([, { now }]) => now))
  return table(
    ['schema', 'what it holds', 'inputs', 'outputs', 'left out', 'wrong lines', 'cells written', 'wrong'],
    [
      ...rows,
      [
        'all',
        '',
        ...SCORED_KINDS.map(
          (kind) => `${share(all[kind])}, ${formatPercent(all[kind].found / all[kind].expected)}`,
        ),
        formatCount(countWrong(all)),
        formatCount(all.cells.written),
        formatCount(all.cells.wrong),
      ],
    ],
  )
}

/** What `init` found at first sight, a paragraph for each group of schemas. */
function heldOutSummaries(): string {
  const groups = new Set(scores.flatMap(([, { heldOut }]) => heldOut ?? []))
  return [...groups]
    .toSorted((a, b) => a - b)
    .map(heldOutSummary)
    .join('\n\n')
}

function heldOutSummary(group: number): string {
  const members = scores.filter(([, { heldOut }]) => heldOut === group)
  const first = total(members.map(([, one]) => one.first))
  const figures = SCORED_KINDS.map((kind) => `${share(first[kind])} ${LABELS[kind]}`).join(', ')
  const [mark = ''] = MARKS.slice(group - 1)
  return [
    `The ${members.length} schemas marked ${mark} were written apart from \`init\`, and first held against it when it was finished for`,
    `${group === 1 ? 'those without a mark' : 'all those before them'}. At first sight it found ${figures},`,
    `with ${formatCount(countWrong(first))} wrong lines, and ${formatCount(first.cells.wrong)} wrong cells among ${formatCount(first.cells.written)}.`,
  ].join('\n')
}

const MARKS = ['¹', '²']

const LABELS: Readonly<Record<Kind, string>> = {
  inputs: 'inputs',
  outputs: 'outputs',
  filters: 'conditions of rows to leave out',
}

const countWrong = (figures: ScoreFigures): number =>
  SCORED_KINDS.reduce((sum, kind) => sum + figures[kind].wrong, 0)

function total(all: readonly ScoreFigures[]): ScoreFigures {
  const sum = (pick: (figures: ScoreFigures) => number): number =>
    all.reduce((total, figures) => total + pick(figures), 0)
  const add = (kind: Kind): ScoreFigures[Kind] => ({
    expected: sum((one) => one[kind].expected),
    found: sum((one) => one[kind].found),
    wrong: sum((one) => one[kind].wrong),
  })
  return {
    inputs: add('inputs'),
    outputs: add('outputs'),
    filters: add('filters'),
    cells: { written: sum((one) => one.cells.written), wrong: sum((one) => one.cells.wrong) },
  }
}
