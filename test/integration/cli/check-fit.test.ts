import { describe, expect, test } from 'vitest'
import { openCommandLine } from './command-line.ts'

// Whether a field can fit its column, on a table with a column for each case.

interface Problem {
  readonly place: string
  readonly found: string
  readonly expected: string
  readonly todo: string
  readonly verdict: 'error'
}

/** A column, its type, its output, and what is found; null: nothing, because some values fit. */
type Case = readonly [
  column: string,
  type: string,
  output: unknown,
  found: null | readonly [found: string, todo?: string, below?: string],
]

const COMPANY: readonly Case[] = [
  // A list.
  ['tech_text', 'text', 'technologies', ['a list of texts, into text', "sql: '$json::text'"]],
  ['tech_json_text', 'text', { field: 'technologies', sql: '$json::text' }, null],
  ['tech_array', 'text[]', 'technologies', null],
  ['tech_jsonb', 'jsonb', 'technologies', null],
  [
    'tech_joined',
    'text',
    { field: 'technologies', sql: "array_to_string(array(select jsonb_array_elements_text($json)), ', ')" },
    null,
  ],
  ['tech_integers', 'integer[]', 'technologies', ['into integer[]']],
  ['tech_short', 'varchar(3)[]', 'technologies', ['into character varying(3)[]', 'type text[]']],
  ['tech_mapped', 'text', { field: 'technologies', map: { React: 'react' } }, ['a list of texts, into text']],
  [
    'tech_key',
    'text',
    { field: 'technologies', sql: "$json ->> 'name'" },
    ['gives NULL for every usual value', 'name another field', '.sql'],
  ],
  // An object.
  ['place', 'text', { field: 'location', unlisted: true }, ['an object with city', 'location.city']],
  ['place_json', 'jsonb', { field: 'location', unlisted: true }, null],
  // A range.
  ['range_number', 'integer', 'employee_range', ['a range such as 51-200, into integer', 'Convert it']],
  ['range_text', 'text', 'employee_range', null],
  [
    'range_lower',
    'integer',
    { field: 'employee_range', sql: String.raw`substring($value from '\d+')` },
    null,
  ],
  ['range_mapped', 'integer', { field: 'employee_range', map: { '1-10': 10, '11-50': 50 } }, null],
  [
    'range_cast',
    'integer',
    { field: 'employee_range', sql: '$value::int' },
    ['invalid input syntax for type integer', 'Correct the expression', '.sql'],
  ],
  [
    'range_math',
    'integer',
    { field: 'employee_range', sql: '$value * 2' },
    ['it calculates with $value', 'name another field', '.sql'],
  ],
  [
    'count_mapped',
    'text',
    { field: 'employee_count', map: { '1-10': 'small', '11-50': 'medium' } },
    ['1-10, 11-50, for `employee_count`', 'Map a field of ranges', '.map'],
  ],
  // Numbers that are too large.
  ['count_small', 'smallint', 'employee_count', null],
  ['count', 'integer', 'employee_count', null],
  ['revenue_int', 'integer', 'revenue', null],
  ['revenue_small', 'smallint', 'revenue', ['into smallint']],
  ['revenue_big', 'bigint', 'revenue', null],
  ['revenue_numeric', 'numeric(5,2)', 'revenue', ['into numeric(5,2)', 'bigint']],
  ['founded', 'numeric(4)', 'founded_year', null],
  ['founded_short', 'numeric(3)', 'founded_year', ['into numeric(3,0)']],
  ['founded_at', 'date', 'founded_year', ['a year, into date']],
  // A text that is too long.
  ['country', 'char(2)', 'location.country', null],
  ['site', 'varchar(10)', 'social.linkedin', ['a URL, into character varying(10)', 'type text']],
  ['industry_cut', 'varchar(8)', { field: 'industry', sql: 'left($value, 8)' }, null],
  // An unlisted field near a listed one is not judged.
  ['custom', 'integer', { field: 'headcount', unlisted: true }, null],
]

const PERSON: readonly Case[] = [
  // Foreign keys.
  [
    'account_id',
    'bigint references accounts',
    'company.name',
    ['a foreign key to accounts', '(select id from accounts where … = $value)'],
  ],
  ['owner_id', 'uuid references owners', 'company.id', ['a foreign key to owners']],
  ['site', 'text references sites (name)', 'company.domain', null],
  [
    'looked_up',
    'bigint references accounts',
    { field: 'company.name', sql: '(select id from accounts where name = $value)' },
    null,
  ],
  ['level_id', 'int references levels', { field: 'seniority', map: { vp: 1, director: 2 } }, null],
  [
    'level_wrong',
    'int references levels',
    { field: 'seniority', map: { vp: 1, director: 9 } },
    ["'9': no row of levels has this id", 'Correct', '.map.director'],
  ],
  // Enums.
  ['stage', 'stage', 'seniority', null],
  ['stage_url', 'stage', 'linkedin', ['(Lead, Customer)', '`map`']],
  ['stage_mapped', 'stage', { field: 'seniority', map: { vp: 'Lead' } }, null],
  [
    'stage_wrong',
    'stage',
    { field: 'seniority', map: { vp: 'Leed' } },
    ["'Leed', which is no label", "Did you mean 'Lead'?", '.map.vp'],
  ],
  ['stage_all', 'seniority', 'seniority', null],
  ['stage_lower', 'stage', { field: 'seniority', sql: 'lower($value)' }, null],
  ['stage_unlisted', 'stage', { field: 'lifecycle', unlisted: true }, null],
  // Maps and constraints.
  [
    'grade',
    `integer check (grade between 1 and 5)`,
    { field: 'seniority', map: { vp: 5, director: 6 } },
    ["'6': violates the constraint people_grade_check", 'Correct', '.map.director'],
  ],
  [
    'grade_text',
    'integer',
    { field: 'seniority', map: { vp: 'five' } },
    ["'five', which does not fit", 'Correct', '.map.vp'],
  ],
  ['level', `text check (level in ('junior', 'senior'))`, 'department', null],
  ['checked', `text check (checked like '+%')`, 'phone', null],
  ['short', `text check (length(short) < 5)`, 'email', ['violates the constraint people_short_check']],
  ['rank', 'rank', { field: 'seniority', map: { vp: 11 } }, ['rank_check', 'Correct', '.map.vp']],
  ['address', 'inet', 'company.domain', ['invalid input syntax for type inet']],
  // Types that text never is.
  ['period', 'int4range', 'title', ['malformed range literal']],
  ['is_boss', 'boolean', 'title', ['a job title, into boolean']],
  ['is_vp', 'boolean', { field: 'seniority', sql: "$value = 'vp'" }, null],
  ['born', 'date', 'title', ['a job title, into date']],
  ['seen', 'timestamptz', 'last_updated', null],
  ['external', 'uuid', 'title', ['a job title, into uuid']],
  ['external_id', 'uuid', 'id', null],
  ['phone_number', 'integer', 'phone', ['a telephone number']],
  ['score', 'integer', 'confidence', null],
  // `$json` taken for the whole record.
  [
    'title',
    'text',
    { field: 'title', sql: "$json->>'title'" },
    ['gives NULL for every usual value of `title`', '$value', '.sql'],
  ],
  ['title_path', 'text', { field: 'title', sql: "$json #>> '{}'" }, null],
  [
    'title_deep',
    'text',
    { field: 'title', sql: "($json) #>> '{company,name}'" },
    ['gives NULL for every usual value', '$value', '.sql'],
  ],
  ['last', 'text', { field: 'name', unlisted: true, sql: "$json ->> 'last'" }, null],
  [
    'middle',
    'text',
    { field: 'name', unlisted: true, sql: "$json ->> 'middle'" },
    ['gives NULL for every usual value', 'name another field', '.sql'],
  ],
  // A pattern.
  [
    'local',
    'text',
    { field: 'phone', matches: String.raw`^0\d+$` },
    ['a telephone number', 'Correct `matches`'],
  ],
  // A key inside jsonb takes everything.
  ['extra.department', '', 'department', null],
]

const columns = (cases: readonly Case[]): string =>
  cases.flatMap(([column, type]) => (type === '' ? [] : [`${column} ${type}`])).join(', ')
const outputs = (cases: readonly Case[]): object =>
  Object.fromEntries(cases.map(([column, , output]) => [column, output]))

const { here } = await openCommandLine({
  prepare: (pool) =>
    pool.query(`
      create type stage as enum ('Lead', 'Customer');
      create type seniority as enum ('entry', 'senior', 'manager', 'director', 'vp', 'c_suite');
      create domain rank as integer constraint rank_check check (value < 10);
      create table accounts (id bigint primary key, name text);
      create table owners (id uuid primary key);
      create table sites (name text primary key);
      create table levels (id int primary key);
      insert into levels values (1), (2);
      create table companies (id int primary key, website text, ${columns(COMPANY)});
      create table people (id int primary key, mail text, extra jsonb, ${columns(PERSON)});
      insert into companies (id, website) values (1, 'example.com');
      insert into people (id, mail) values (1, 'ada@example.com')`),
  config: {
    sources: {
      companies: {
        kind: 'company',
        table: 'companies',
        inputs: { domain: 't.website' },
        outputs: outputs(COMPANY),
      },
      people: { kind: 'person', table: 'people', inputs: { email: 't.mail' }, outputs: outputs(PERSON) },
    },
    budget: 5,
  },
})
const { stdout } = await here(['check', '--json'])
if (!stdout.includes('"checks"')) throw new Error(stdout)
const { checks } = JSON.parse(stdout) as { checks: { name: string; problems: Problem[] }[] }
const problems: ReadonlyMap<string, Problem> = new Map(
  checks
    .filter(({ name }) => name.startsWith('source '))
    .flatMap(({ name, problems: found }) => found.map((one) => [`${name.slice(7)}.${one.place}`, one])),
)

const all = [
  ...COMPANY.map((one) => ['companies', ...one] as const),
  ...PERSON.map((one) => ['people', ...one] as const),
]

describe('a field that can never fit its column is an error', () => {
  test.each(all.filter((one) => one[4] !== null))('%s.%s', (source, column, _type, _output, wanted) => {
    const [found, todo = '', below = ''] = wanted ?? ['']
    expect(problems.get(`${source}.outputs.${column}${below}`)).toMatchObject({
      verdict: 'error',
      found: expect.stringContaining(found),
      todo: expect.stringContaining(todo),
    })
  })

  test.each(all.filter((one) => one[4] === null))('%s.%s may fit', (source, column) => {
    const place = `${source}.outputs.${column}`
    const found = [...problems.keys()].filter((one) => one === place || one.startsWith(`${place}.`))
    expect(found).toEqual([])
  })
})
