import { describe, expect, test } from 'vitest'
import type { Finding } from '../../../src/cli/check/finding.ts'
import { openCommandLine } from './command-line.ts'

// Whether a field can fit its column, on a table with a column for each case.

/** A column, its type, its output, and what is found; null: nothing, because some values fit. */
type Case = readonly [
  column: string,
  type: string,
  output: unknown,
  found: null | readonly [found: string, todo?: string, below?: string],
]

const COMPANY: readonly Case[] = [
  ['tech_text', 'text', 'technologies', ['a list of texts, into text', '$json::text is a list']],
  ['tech_json_text', 'text', { field: 'technologies', sql: '$json::text' }, null],
  ['tech_array', 'text[]', 'technologies', null],
  ['tech_jsonb', 'jsonb', 'technologies', null],
  ['tech_integers', 'integer[]', 'technologies', ['into integer[]']],
  ['tech_short', 'varchar(3)[]', 'technologies', ['into character varying(3)[]']],
  ['place', 'text', { field: 'location', unlisted: true }, ['an object with city']],
  ['place_json', 'jsonb', { field: 'location', unlisted: true }, null],
  ['range_number', 'integer', 'employee_range', ['a range such as 51-200, into integer', 'Convert it']],
  ['range_text', 'text', 'employee_range', null],
  ['range_mapped', 'integer', { field: 'employee_range', map: { '1-10': 10, '11-50': 50 } }, null],
  ['count_small', 'smallint', 'employee_count', null],
  ['revenue_int', 'integer', 'revenue', null],
  ['revenue_small', 'smallint', 'revenue', ['into smallint']],
  ['revenue_numeric', 'numeric(5,2)', 'revenue', ['into numeric(5,2)']],
  ['founded', 'numeric(4)', 'founded_year', null],
  ['founded_at', 'date', 'founded_year', ['a year, into date']],
  ['country', 'char(2)', 'location.country', null],
  ['site', 'varchar(10)', 'social.linkedin', ['a URL, into character varying(10)']],
  // An unlisted field near a listed one is not judged.
  ['custom', 'integer', { field: 'headcount', unlisted: true }, null],
]

const PERSON: readonly Case[] = [
  ['account_id', 'bigint references accounts', 'company.name', ['a name, into bigint']],
  ['stage', 'stage', 'seniority', null],
  ['stage_url', 'stage', 'linkedin', ['(Lead, Customer)', '`map`']],
  ['stage_mapped', 'stage', { field: 'seniority', map: { vp: 'Lead' } }, null],
  [
    'stage_wrong',
    'stage',
    { field: 'seniority', map: { vp: 'Leed' } },
    ["'Leed', which does not fit", 'Correct', '.map.vp'],
  ],
  [
    'grade_text',
    'integer',
    { field: 'seniority', map: { vp: 'five' } },
    ["'five', which does not fit", 'Correct', '.map.vp'],
  ],
  ['level', `text check (level in ('junior', 'senior'))`, 'department', null],
  ['is_boss', 'boolean', 'title', ['a job title, into boolean']],
  ['is_vp', 'boolean', { field: 'seniority', sql: "$value = 'vp'" }, null],
  ['born', 'date', 'title', ['a job title, into date']],
  ['seen', 'timestamptz', 'last_updated', null],
  ['external', 'uuid', 'title', ['a job title, into uuid']],
  ['external_id', 'uuid', 'id', null],
  ['phone_number', 'integer', 'phone', ['a telephone number']],
  ['score', 'integer', 'confidence', null],
  [
    'local',
    'text',
    { field: 'phone', matches: String.raw`^0\d+$` },
    ['a telephone number', 'correct `matches`'],
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
      create table accounts (id bigint primary key, name text);
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
const { checks } = JSON.parse(stdout) as { checks: Finding[] }
const problems: ReadonlyMap<string, Finding['problems'][number]> = new Map(
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
