import fc from 'fast-check'
import { beforeAll, expect, test } from 'vitest'
import { readServiceReport, ReportTooLarge, type ServiceReport } from '../../../src/actions/service-report.ts'
import { readEnvironment } from '../../../src/config/environment.ts'
import { parseConfig } from '../../../src/config/parse.ts'
import { readAnswers } from '../../../src/store/service-report.ts'
import { tuplesReadSoFar } from '../../support/tuples-read.ts'
import { useTestDatabase } from '../../support/database.ts'
import { personSource } from '../../support/crm.ts'

// Three services in order, whose answers and writes are stored by the test; an oracle counts them row by row.

const COLUMNS = ['title', 'phone', 'company'] as const
const FIELDS = { title: 'title', phone: 'phone', company: 'company.name' } as const
const NAMES = ['acme', 'pdl', 'other'] as const
const PRICES = [0.01, 0.2, 0.5] as const

const source = personSource('crm.contacts', FIELDS, { minConfidence: 0.5 })

/** In this order, each where the one before has found nothing or leaves a cell blank. */
const config = parseConfig(
  {
    services: Object.fromEntries(
      NAMES.map((name, n) => [name, { price: { currency: 'EUR', lookup: PRICES[n] } }]),
    ),
    sources: {
      contacts: { ...source, services: NAMES.map((name, n) => (n === 0 ? name : { name, when: 'blank' })) },
    },
    budget: 'unlimited',
  },
  null,
)

const database = useTestDatabase()
beforeAll(async () => {
  await database.query(
    `insert into fillrate.services (id, host, name) select n - 1, name || '.example', name from unnest($1::text[]) with ordinality as s (name, n)`,
    [NAMES],
  )
})
const read = (options: Partial<Parameters<typeof readServiceReport>[2]> = {}): Promise<ServiceReport> =>
  readServiceReport(
    database.db,
    { config, environment: readEnvironment({}) },
    { sources: [], since: null, timeoutMs: 60_000, ...options },
  )

/** What a service has answered: nothing found, or a record with some of the columns. Null: it has not answered. */
type Answer = 'not_found' | 'rejected' | 'failed' | { columns: readonly string[]; confidence: number } | null

interface StoredRow {
  readonly answers: readonly Answer[]
  /** Which services have written their columns: the last one again after an undo, and in place of what another wrote. */
  readonly writes: readonly { readonly service: number; readonly isUndone: boolean }[]
  /** The services were called with other identifiers: only the row knows that the lookups are about it. */
  readonly isByOtherKinds: boolean
}

const answer = fc.oneof(
  fc.constantFrom<Answer>('not_found', 'rejected', 'failed', null),
  fc.record({ columns: fc.subarray([...COLUMNS]), confidence: fc.constantFrom(0.4, 0.5, 0.9) }),
)

const storedRow = fc.record({
  answers: fc.tuple(answer, answer, answer),
  writes: fc.array(fc.record({ service: fc.nat(2), isUndone: fc.boolean() }), { maxLength: 4 }),
  isByOtherKinds: fc.boolean(),
})

const isUsable = (one: Answer | undefined): one is Exclude<Answer, string | null> =>
  typeof one === 'object' && one !== null && one.confidence >= 0.5

const KINDS = ['email', 'linkedin_url', 'name_company'] as const

/** Stores rows: their lookups, with all of a row in it, and what was written in its order. */
async function storeRows(rows: readonly StoredRow[]): Promise<void> {
  await database.query(
    `truncate fillrate.lookups, fillrate.rows, fillrate.changes, fillrate.runs, fillrate.scheduled_runs, fillrate.jobs, fillrate.spend restart identity`,
  )
  await database.query(
    `insert into fillrate.runs (trigger, sources, state, options, owner, lease_token, leased_until, finished_at)
     select 'manual', '{contacts}', 'completed', case when n < 3 then '{}' else '{"undoes": 1}'::jsonb end, 'test', gen_random_uuid(), now(), now()
       from generate_series(0, 3) n`,
  )
  for (const [n, { answers, writes, isByOtherKinds }] of rows.entries()) {
    const ids: number[] = []
    const idOf = new Map<number, number>()
    for (const [service, one] of answers.entries()) {
      if (one === null) continue
      const record = typeof one === 'object' ? JSON.stringify(toRecord(one.columns)) : null
      const [made] = await database.query<{ id: number }>(
        `insert into fillrate.lookups (kind, key, service_id, input, source, state, resolved_at, record, confidence)
         values ($1, $2, $3, '{}', 'contacts', $4, now(), $5, $6) returning id::int`,
        [
          isByOtherKinds ? KINDS[service] : 'email',
          isByOtherKinds ? `${n} of ${service}` : String(n),
          service,
          typeof one === 'object' ? 'found' : one,
          record,
          typeof one === 'object' ? one.confidence : null,
        ],
      )
      if (made) ids.push(made.id)
      if (made) idOf.set(service, made.id)
    }
    // Of the same kind and key, it is enough that the row knows one of them.
    const last = ids.at(-1) ?? null
    const missed = isByOtherKinds && ids.length > 1 ? ids.slice(0, -1) : null
    await database.query(
      `insert into fillrate.rows (source, key, state, settled_at, lookup_id, missed_lookup_ids) values ('contacts', $1, 'enriched', now(), $2, $3)`,
      [String(n), last, missed],
    )
    for (const { service, columns, isUndone } of writesOf(answers, writes)) {
      await database.query(
        `with made as (
           insert into fillrate.changes (run_id, source, key, before, after, undone_by_change_id, lookup_id)
           values ($1, 'contacts', $2, '{}', $3, $4, $5) returning key, id
         )
         insert into fillrate.changes (run_id, source, key, before, after) select 4, 'contacts', key, $3, '{}' from made where $4::bigint is not null`,
        [
          service + 1,
          String(n),
          JSON.stringify(toRecord(columns, true)),
          isUndone ? 0 : null,
          idOf.get(service),
        ],
      )
    }
  }
}

const toRecord = (columns: readonly string[], isChange = false): object => ({
  ...(columns.includes('title') && { title: 'x' }),
  ...(columns.includes('phone') ? { phone: '1' } : { phone: isChange ? null : ' ' }),
  ...(columns.includes('company') && { company: isChange ? 'C' : { name: 'C' } }),
  enriched_at: 'never a column of the source',
})

/** Writes of services that have a record for the row. */
const writesOf = (answers: readonly Answer[], writes: StoredRow['writes']) =>
  writes.flatMap(({ service, isUndone }) => {
    const one = answers[service]
    return isUsable(one) && one.columns.length > 0 ? [{ service, columns: one.columns, isUndone }] : []
  })

/** The cells that each service has filled last. */
function countCells(rows: readonly StoredRow[]): number[] {
  const writers = rows.flatMap(({ answers, writes }) => {
    const standing = writesOf(answers, writes).filter(({ isUndone }) => !isUndone)
    return COLUMNS.flatMap(
      (column) => standing.findLast(({ columns }) => columns.includes(column))?.service ?? [],
    )
  })
  return NAMES.map((_, service) => writers.filter((one) => one === service).length)
}

test('answered, found and filled are as counted row by row', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(storedRow, { minLength: 1, maxLength: 12 }), async (rows) => {
      await storeRows(rows)
      const { services, last } = await read()
      const counted = countCells(rows)
      for (const [n, service] of services.entries()) {
        const answers = rows.map((one) => one.answers[n])
        const found = answers.filter((one) => typeof one === 'object' && one !== null).length
        const missed = ['not_found', 'rejected'].map((state) => answers.filter((one) => one === state).length)
        expect(service).toMatchObject({
          service: NAMES[n],
          found,
          not_found: missed[0],
          rejected: missed[1],
          answered: found + (missed[0] ?? 0) + (missed[1] ?? 0),
          cells: counted[n],
        })
      }
      expect(last).toMatchObject([{ source: 'contacts', service: 'other', cells: counted.at(-1) }])
    }),
    {
      numRuns: 60,
      // Rows of which everything is the same.
      examples: [
        [
          Array.from({ length: 2 }, () => ({
            answers: [all, all, 'not_found'],
            writes: written(1),
            isByOtherKinds: false,
          })),
        ],
        [
          Array.from({ length: 3 }, () => ({
            answers: [found(['title']), 'not_found', 'rejected'],
            writes: written(0),
            isByOtherKinds: false,
          })),
        ],
      ],
    },
  )
})

/** A record of all columns. */
const all = { columns: COLUMNS, confidence: 0.9 }

const found = (columns: readonly string[]): Answer => ({ columns, confidence: 0.9 })
const written = (...services: number[]): StoredRow['writes'] =>
  services.map((service) => ({ service, isUndone: false }))

/** Ten rows: pdl has answered about those that acme does not know, and about two that it does. */
const TEN_ROWS: readonly StoredRow[] = [
  ...Array.from({ length: 4 }, (): StoredRow => ({
    answers: [all, null, null],
    writes: written(0),
    isByOtherKinds: false,
  })),
  {
    answers: [found(['title']), found(['title', 'phone']), null],
    writes: written(1, 0),
    isByOtherKinds: true,
  },
  { answers: [found(['title']), 'not_found', all], writes: written(2, 0), isByOtherKinds: true },
  { answers: ['not_found', all, null], writes: written(1), isByOtherKinds: false },
  { answers: ['not_found', 'rejected', found(['phone'])], writes: written(2), isByOtherKinds: true },
  ...Array.from({ length: 2 }, (): StoredRow => ({
    answers: ['not_found', 'not_found', 'not_found'],
    writes: [],
    isByOtherKinds: true,
  })),
]

test('costs are by the price of each service, also of runs that are deleted', async () => {
  await storeRows(TEN_ROWS)
  await database.query(
    `insert into fillrate.spend (run_id, service_id, source, endpoint, calls, lookups, credits)
     values (1, 0, 'contacts', 'person', 11, 10, 10), (2, 1, 'contacts', 'person', 6, 6, 6), (99, 2, 'contacts', 'bulk', 1, 4, 4),
            (1, 0, 'gone', 'person', 5, 5, 5)`,
  )
  const { services, last } = await read()
  expect(
    services.map(({ service, calls, lookups, cost, cells, cost_per_cell }) => [
      service,
      calls,
      lookups,
      cost?.amount,
      cells,
      cost_per_cell?.amount,
    ]),
  ).toEqual([
    ['acme', 11, 10, 0.1, 14, expect.closeTo(0.1 / 14, 6)],
    ['pdl', 6, 6, 1.2, 4, 0.3],
    ['other', 1, 4, 2, 3, expect.closeTo(2 / 3, 5)],
  ])

  expect(last).toEqual([
    { source: 'contacts', service: 'other', cells: 3, cost: { amount: 2, currency: 'EUR' } },
  ])
  await expect(read({ sources: ['contact'] })).rejects.toThrow(/contacts/)
})

test('a span of days leaves out what was before', async () => {
  await storeRows(TEN_ROWS)
  await database.query(
    `insert into fillrate.spend (run_id, service_id, day, source, endpoint, calls, lookups) values (1, 0, '2020-01-01', 'contacts', 'person', 7, 7), (1, 0, current_date, 'contacts', 'person', 2, 2)`,
  )
  await database.query(`update fillrate.lookups set resolved_at = '2020-01-01' where key < '4'`)
  await database.query(`update fillrate.changes set written_at = '2020-01-01' where key < '4'`)
  await database.query(`update fillrate.rows set settled_at = '2020-01-01' where key < '4'`)
  const since = new Date('2021-01-01')
  expect((await read()).services[0]).toMatchObject({ lookups: 9, answered: 10, cells: 14 })
  const report = await read({ since })
  expect(report.services[0]).toMatchObject({ lookups: 2, answered: 6, cells: 2 })
})

test('a database with one service has a report, and no last one', async () => {
  await storeRows(TEN_ROWS.map(({ answers, ...row }) => ({ ...row, answers: [answers[0] ?? null] })))
  const { services, last } = await readServiceReport(
    database.db,
    {
      config: parseConfig({ sources: { contacts: source } }, null),
      environment: readEnvironment({ FILLRATE_BASE_URL: 'https://acme.example' }),
    },
    { sources: [], since: null, timeoutMs: 60_000 },
  )
  expect(services).toMatchObject([{ service: 'acme.example', answered: 10, found: 6 }])
  expect(last).toEqual([])
})

test('it reads each lookup, row and change once', async () => {
  await storeRows([])
  const [rows, both] = [3_000, 300]
  await database.query(
    `insert into fillrate.lookups (kind, key, service_id, input, source, state, resolved_at, record)
     select 'email', n::text, service, '{}', 'contacts', 'found', now(), '{"title": "x", "phone": "1"}'
       from generate_series(1, $1::int) n cross join generate_series(0, 1) service where service = 0 or n <= $2::int`,
    [rows, both],
  )
  await database.query(
    `insert into fillrate.rows (source, key, state, settled_at, lookup_id) select 'contacts', key, 'enriched', now(), id from fillrate.lookups where service_id = 0`,
  )
  await database.query(
    `insert into fillrate.changes (run_id, lookup_id, source, key, before, after) select 1, lookup_id, 'contacts', key, '{}', '{"title": "x"}' from fillrate.rows`,
  )
  for (const table of ['lookups', 'rows', 'changes']) await database.query(`vacuum analyze fillrate.${table}`)
  const filter = { sources: ['contacts'], since: null }
  const reads = await database.db.transaction().execute(async (tx) => {
    const tables = ['lookups', 'rows', 'changes']
    const count = () => Promise.all(tables.map((table) => tuplesReadSoFar(tx, table)))
    const before = await count()
    const lines = await readAnswers(tx, filter, { contacts: ['title'] })
    expect(lines.filter(({ kind }) => kind === 'cells')).toMatchObject([{ count: rows }])
    return (await count()).map((after, n) => after - (before[n] ?? 0))
  })
  // The planner looks at the ends of an index, too.
  const [planning, known] = [10, rows + both]
  const [lookups = 0, ...others] = reads
  for (const read of others) expect(read - rows).toBeLessThanOrEqual(planning)
  expect(lookups).toBeGreaterThanOrEqual(known)
  expect(lookups).toBeLessThanOrEqual(2 * known + planning)
})

test('what takes too long is refused with advice', async () => {
  await expect(read({ timeoutMs: 1 }).then(() => read({ timeoutMs: 1 }))).rejects.toThrow(ReportTooLarge)
})
