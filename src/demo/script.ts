import type pg from 'pg'
import { type FillCounts, countFilled } from '../sources/fill-counts.ts'
import type { Plan } from '../actions/plan/plan.ts'
import type { RunProgress } from '../runs/counters.ts'
import type { RunReport } from '../runs/report.ts'
import { type Status, readStatus } from '../actions/status.ts'
import type { SandboxStats } from '../sandbox/stats.ts'
import type { DemoEnvironment } from './environment.ts'
import { DEMO_SERVICE_NAMES, type DemoServiceName } from './settings.ts'
import { BLANK_CHARACTERS } from '../sources/cell.ts'

/** The results of a demo, with evidence. */
export interface DemoResult {
  readonly run: RunReport
  readonly fillRates: readonly FillRateChange[]
  readonly status: Status
  /** Lookups answered before the run. */
  readonly knownLookups: number
  /** Deliveries received during this run. */
  readonly deliveries: number
  readonly services: Readonly<Record<DemoServiceName, SandboxStats>>
  readonly manualValues: ManualValues
  readonly examples: readonly ContactExample[]
}

/** How long the run waits for deliveries when nothing else is left: longer than a job's deadline. */
const WAIT_MS = 20_000

const passOptions = (signal: AbortSignal) =>
  ({ sources: [], limit: null, where: null, route: 'auto', signal }) as const

/** What a run would request. */
export const planDemo = ({ app }: DemoEnvironment, signal: AbortSignal): Promise<Plan> =>
  app.plan(passOptions(signal))

/** Runs once, and inspects the database and the service before and after. */
export async function runDemo(
  { app, client, services }: DemoEnvironment,
  options: { readonly signal: AbortSignal; readonly onProgress: (progress: RunProgress) => void },
): Promise<DemoResult> {
  const values = await snapshotManualValues(client)
  const contacts = await snapshotContacts(client)
  const before = await coverages()
  const knownLookups = await counted('fillrate.lookups where resolved_at is not null')
  const deliveriesBefore = await counted('fillrate.deliveries')
  for (const service of Object.values(services)) service.reset()

  const report = await app.run({
    ...passOptions(options.signal),
    waitMs: WAIT_MS,
    onProgress: options.onProgress,
  })

  const after = await coverages()
  const filledBy = await countFilledBy(client, report)
  return {
    run: report,
    fillRates: [...app.sources.keys()].map((source, n) =>
      compareFillRates(source, before[n], after[n], filledBy.get(source)),
    ),
    status: await readStatus(app.db, [...app.sources.keys()], null),
    knownLookups,
    deliveries: (await counted('fillrate.deliveries')) - deliveriesBefore,
    services: { acme: services.acme.stats(), beta: services.beta.stats() },
    manualValues: await values.check(),
    examples: await contacts.examples(report.run),
  }

  function coverages(): Promise<FillCounts[]> {
    return Promise.all(
      [...app.sources.values()].map((source) =>
        app.db.transaction().execute((tx) => countFilled(tx, source)),
      ),
    )
  }

  async function counted(what: string): Promise<number> {
    const { rows } = await client.query<{ count: number }>(`select count(*)::integer as count from ${what}`)
    return rows[0]?.count ?? 0
  }
}

/** The filled cells of a source before and after the run, and the rows that could be filled. */
export interface FillRateChange {
  readonly source: string
  readonly eligible: { readonly before: number; readonly after: number }
  readonly columns: readonly {
    readonly column: string
    readonly before: number
    /** Cells that were filled after each service, in their order. */
    readonly afterEach: readonly { readonly service: DemoServiceName; readonly filled: number }[]
    readonly after: number
  }[]
}

type FilledBy = ReadonlyMap<DemoServiceName, ReadonlyMap<string, number>>

/** How many cells each service has filled, by source and column. */
async function countFilledBy(client: pg.Client, { run }: RunReport): Promise<ReadonlyMap<string, FilledBy>> {
  const { rows } = await client.query<{
    source: string
    service: DemoServiceName
    columns: Record<string, number>
  }>(
    `select source, service, jsonb_object_agg(name, cells) as columns from (
       select c.source, s.name as service, k.name, count(*)::integer as cells
         from fillrate.changes c join fillrate.runs r on r.id = c.run_id join fillrate.services s on s.id = r.service_id
        cross join lateral jsonb_object_keys(c.after) as k(name)
        where $1 in (r.id, r.group_id) group by 1, 2, 3) counted
      group by 1, 2`,
    [run],
  )
  const bySource = Map.groupBy(rows, ({ source }) => source)
  return new Map(
    [...bySource].map(([source, counted]) => [
      source,
      new Map(counted.map(({ service, columns }) => [service, new Map(Object.entries(columns))])),
    ]),
  )
}

const compareFillRates = (
  source: string,
  before: FillCounts | undefined,
  after: FillCounts | undefined,
  filledBy: FilledBy = new Map(),
): FillRateChange => ({
  source,
  eligible: { before: before?.eligible ?? 0, after: after?.eligible ?? 0 },
  columns: (after?.columns ?? []).map(({ column, filled }, n) => ({
    column,
    before: before?.columns[n]?.filled ?? 0,
    afterEach: DEMO_SERVICE_NAMES.map((service, turn) => ({
      service,
      filled:
        (before?.columns[n]?.filled ?? 0) +
        DEMO_SERVICE_NAMES.slice(0, turn + 1).reduce(
          (sum, one) => sum + (filledBy.get(one)?.get(column) ?? 0),
          0,
        ),
    })),
    after: filled,
  })),
})

/** A contact before and after the run. */
export interface ContactExample {
  readonly name: string
  /** The identifier of its lookup, as written in the CRM. */
  readonly identifier: string
  readonly cells: readonly {
    readonly column: string
    /** Null for NULL. */
    readonly before: string | null
    readonly after: string | null
  }[]
}

const CONTACT_CELLS_SQL = `jsonb_build_object('title', title, 'phone', phone, 'seniority', seniority::text,
                                  'department', attributes ->> 'department')`

/** Saves the contacts as they are now, in a temporary table of the client's connection. */
async function snapshotContacts(
  client: pg.Client,
): Promise<{ examples(run: number): Promise<ContactExample[]> }> {
  await client.query('drop table if exists contacts_before')
  await client.query(
    `create temp table contacts_before as select id, ${CONTACT_CELLS_SQL} as cells from crm.contacts`,
  )
  return {
    examples: async (run) => {
      const { rows } = await client.query<ContactExample>(EXAMPLES_SQL, [run])
      return rows
    },
  }
}

/** One example of each kind: a manually entered value that stays, and each way of lookup. */
const EXAMPLES_SQL = `
  with written as (
    select c.*, b.cells as cells_before, a.name as account, l.kind as identifier_kind
      from crm.contacts c
      join contacts_before b using (id)
      left join crm.accounts a on a.id = c.account_id
      join fillrate.rows r on r.source = 'contacts' and r.key = c.id::text
      join fillrate.lookups l on l.id = r.lookup_id
     where exists (select from fillrate.changes h where h.run_id = $1 and h.source = 'contacts' and h.key = r.key)
  ), compared as (
    select *, ${CONTACT_CELLS_SQL} as cells_after from written
  ), ranked as (
    select *,
           case when cells_before ->> 'title' in ('N/A', 'n/a', '-', '?', '0', 'unknown') then 1
                when identifier_kind = 'email' and cells_before ->> 'phone' ~ '[0-9]{2}' then 2
                when identifier_kind = 'email' and email <> lower(btrim(email)) then 3
                when identifier_kind = 'linkedin_url' then 4
                when identifier_kind = 'name_company' then 5 end as kind,
           (select count(*) from jsonb_each(cells_before) o join jsonb_each(cells_after) n using (key)
             where o.value <> n.value) as filled
      from compared
  ), chosen as (
    select distinct on (kind) * from ranked
     where kind is not null and btrim(first_name) <> ''
     order by kind, filled desc, id
  )
  select btrim(concat_ws(' ', btrim(first_name), btrim(last_name))) as name,
         case identifier_kind when 'email' then email
                    when 'linkedin_url' then linkedin
                    else concat_ws(' ', first_name, last_name) || ', ' || account end as identifier,
         (select jsonb_agg(jsonb_build_object('column', key, 'before', o.value, 'after', n.value) order by place)
            from unnest(array['title', 'phone', 'seniority', 'department']) with ordinality as x (key, place)
            join jsonb_each(cells_before) o using (key)
            join jsonb_each(cells_after) n using (key)
           where o.value <> 'null' or n.value <> 'null') as cells
    from chosen order by kind`

/** Evidence that no manually entered value was changed. */
interface ManualValues {
  /** Cells that were not blank before. */
  readonly values: number
  readonly before: string
  readonly after: string
  /** Number of those cells that hold another value now, or none. */
  readonly changed: number
}

/** Columns that people do not fill: set by the database, or by a run. */
const SYSTEM_COLUMNS = ['id', 'created_at', 'updated_at', 'enriched_at', 'match_confidence']

/**
 * Every non-blank cell of both tables, with each key of a jsonb column as a cell. Independent of Fillrate's own SQL,
 * because it verifies that.
 */
const MANUAL_CELLS_SQL = `
  select r.tab, r.id, c.key || coalesce('.' || k.key, '') as col, coalesce(k.value, c.value) as value
    from (select 'accounts' as tab, id, to_jsonb(a) as cells from crm.accounts a
           union all
          select 'contacts', id, to_jsonb(p) from crm.contacts p) r
   cross join lateral jsonb_each(r.cells - $1::text[]) c
    left join lateral jsonb_each(case when jsonb_typeof(c.value) = 'object' then c.value end) k on true
   where (jsonb_typeof(c.value) <> 'object' or k.key is not null)
     and coalesce(k.value, c.value) not in ('null', '[]')
     and not (jsonb_typeof(coalesce(k.value, c.value)) = 'string'
              and btrim(coalesce(k.value, c.value) #>> '{}', $2) = '')`

const CHECKSUM_SQL =
  "md5(string_agg(tab || ' ' || id || ' ' || col || ' ' || value, e'\\n' order by tab, id, col))"

/** Saves all current values in a temporary table of the client's connection. */
async function snapshotManualValues(client: pg.Client): Promise<{ check(): Promise<ManualValues> }> {
  const parameters = [SYSTEM_COLUMNS, BLANK_CHARACTERS]
  await client.query('drop table if exists manual_values')
  await client.query(`create temp table manual_values as ${MANUAL_CELLS_SQL}`, parameters)
  // Without statistics the check would look up each value separately.
  await client.query('analyze manual_values')
  const noted = await client.query<{ values: number; checksum: string | null }>(
    `select count(*)::integer as values, ${CHECKSUM_SQL} as checksum from manual_values`,
  )
  return {
    check: async () => {
      const now = await client.query<{ checksum: string | null; changed: number }>(
        `with now as materialized (${MANUAL_CELLS_SQL}),
              them as (select tab, id, col, n.value, n.value is distinct from t.value as changed
                         from manual_values t left join now n using (tab, id, col))
         select ${CHECKSUM_SQL} as checksum, count(*) filter (where changed)::integer as changed from them`,
        parameters,
      )
      return {
        values: noted.rows[0]?.values ?? 0,
        before: noted.rows[0]?.checksum ?? '',
        after: now.rows[0]?.checksum ?? '',
        changed: now.rows[0]?.changed ?? 0,
      }
    },
  }
}
