import { sql, type RawBuilder } from 'kysely'
import { statesThatGoOn, Row, type StepsBefore } from '../../domain/row.ts'
import {
  filterCastableKeys,
  keysQuery,
  pageQuery,
  pageColumnsSql,
  listTracked,
  pageOrderSql,
  type LastWrittenRelation,
  type PageRow,
} from '../../sources/page.ts'
import { holdsAnyEarlierSql, readsEarlier } from '../../sources/earlier-values.ts'
import { keyMatchesSql } from '../../sources/key.ts'
import type { Source } from '../../sources/source-model.ts'
import type { Database } from '../../store/open.ts'
import { earlierValuesSql } from '../../store/own-values.ts'
import type { Tx } from '../../store/transaction.ts'
import { serviceNumberSql } from '../../store/terms.ts'
import { hasCascade, type LookupKind } from '../../domain/identifiers/kind.ts'

/**
 * What a row of a page means to a run:
 * - `eligible`: to be picked
 * - `abandoned`: waits in a run that is dead; to be picked
 * - `complete`: nothing could be written
 * - `fresh`: finished with the same inputs, and not due
 * - `stamped`: its `freshness` column is recent
 * - `held`: another running run has it
 */
export type Disposition = 'eligible' | 'abandoned' | 'complete' | 'fresh' | 'stamped' | 'held'

export interface PickCandidate extends PageRow {
  readonly disposition: Disposition
  /**
   * A cell holds what Fillrate wrote for earlier inputs, which counts as blank: the row lacks it,
   * although it is full.
   */
  readonly holdsEarlier: 'here' | 'later' | null
  /**
   * Lookups of the same pass for these inputs: of a cascade, and of services before this one. Null:
   * none, and no service before it.
   */
  readonly missed: LookupsBefore | null
  /** Until when its `freshness` column keeps it from being picked; null: it does not. */
  readonly settledUntil: Date | null
  /** Whether it is finished and due again. */
  readonly isDue: boolean
  /** When Fillrate finished it, as Postgres text; null: it waits, or is not known. */
  readonly settledAt: string | null
}

export interface CandidatePage {
  /** The rows to be picked, in key order. */
  readonly candidates: PickCandidate[]
  /** Rows of the page by disposition; they add up to `scanned`. */
  readonly dispositions: Partial<Record<Disposition, number>>
  /** The last key read; null: none. */
  readonly last: string | null
  /** Where the next page starts; null after the last one. */
  readonly next: string | null
  readonly scanned: number
  /** The most candidates in one page, where several were read. */
  readonly densest: number
}

/** A page that was read from the table. */
export interface ScannedPage extends CandidatePage {
  /** The scanned rows that Fillrate knows. */
  readonly known: number
}

export interface ReadOptions {
  readonly after: string | null
  /** The last key to read; absent: to the end. */
  readonly until?: string | null
  readonly size: number
  readonly where: string | null
  readonly live: readonly number[]
  /** The configured service: rows finished with another one are eligible. */
  readonly service: number
}

/**
 * Reads one keyset page of a source. Rows without blanks, and rows finished with the same inputs and not due, are
 * filtered in SQL, so that a pass over an enriched table transfers no data.
 */
export async function readCandidates(
  db: Database | Tx,
  source: Source,
  options: ReadOptions,
): Promise<ScannedPage> {
  const { size, service } = options
  const page = pageQuery(source, { ...options, limit: size, ...lastWrittenSql(source) })
  const runningIds = sql`${[...options.live]}::bigint[]`
  const isHeld = sql`r.run_id = any(${runningIds})`
  // The keys are searched as one array: a search a row costs half as much again, and four times the pages.
  // A full join is never a nested loop, whatever the statistics say of a table that has just filled, and stays one
  // because its condition does not show that `page` is there. The source is hidden from the planner: Postgres before
  // 17 searches one that it takes for empty without the keys.
  //
  // A settled row is neither numbered, sorted nor stored again: what is settled or complete, or unknown to
  // Fillrate, is counted as the rest of the page. The page is read once for keys and counts, and once for the join;
  // the last key is the last of the array because `page` is ordered (a search for it took a tenth of the
  // statement). The counts are a row of their own, for which an outer join to nothing gives the columns' types: as
  // columns of each candidate they were computed, sent and parsed for each.
  const disposition = sql`case when r.state = ${sql.lit(Row.waiting)} and (${isHeld}) then 'held'
               when r.state = ${sql.lit(Row.waiting)} then 'abandoned'
               else ${finishedDispositionSql(source, service)} end`
  const { rows } = await sql<PageResult>`
    with page as materialized (${page}),
    scanned as materialized (
      select array_agg(key) as keys, count(*) as rows, count(*) filter (where lacks) as lacking from page
    ),
    unsettled as materialized (
      select page.*, ${candidateColumnsSql(source, service)}, ${disposition} as disposition, r.key is null as "isNew"
        from page full join (
          select ${rowColumnsSql(source)} from fillrate.rows
           where source = (select ${source.name}::text) and key = any((select keys from scanned)::text[]) offset 0
        ) r on r.key = page.key
       where coalesce(page.lacks::int, -1) >= 0 and (r.key is null or ${disposition} not in ('fresh', 'complete'))
    ), counted as (
      select json_build_object(
               'scanned', rows, 'lacking', lacking, 'last', keys[rows],
               'unsettled', (select json_agg(by_disposition)
                               from (select disposition, count(*) as rows, count(*) filter (where lacks) as lacking,
                                            count(*) filter (where "isNew") as new
                                       from unsettled group by disposition) by_disposition)) as counts
        from scanned
    )
    select counts, ${pageColumnsSql(source)}, missed, "settledUntil", "isDue", "settledAt", "holdsEarlier", disposition
      from (select counts, page.* from counted left join unsettled page on false
            union all select null, page.* from unsettled page where disposition in ('eligible', 'abandoned')) page
     order by ${pageOrderSql(source)}`.execute(db)
  const { scanned, lacking, last, unsettled } = rows.findLast(isCounts)?.counts ?? NO_ROWS
  let [fresh, complete] = [lacking, scanned - lacking]
  const dispositions: Partial<Record<Disposition, number>> = {}
  let known = scanned
  for (const counted of unsettled ?? []) {
    known -= counted.new
    if (counted.disposition === 'complete') continue
    dispositions[counted.disposition] = counted.rows
    fresh -= counted.lacking
    complete -= counted.rows - counted.lacking
  }
  const candidates = rows.filter(isCandidate).map(withEarlier)
  return {
    candidates,
    dispositions: { ...dispositions, fresh, complete },
    last,
    next: scanned === size ? last : null,
    scanned,
    known,
    densest: candidates.length,
  }
}

/** A candidate, or the counts of the page: in a row of their own, because they would be sent with each candidate. */
type PageResult =
  | (PickCandidate & { readonly counts: null })
  | { readonly key: null; readonly counts: PageCounts }

const isCounts = (row: PageResult): row is PageResult & { readonly key: null } => row.key === null
const isCandidate = (row: PageResult): row is PageResult & PickCandidate => row.key !== null

interface PageCounts {
  readonly scanned: number
  readonly lacking: number
  readonly last: string | null
  /** Rows that are neither fresh nor complete, or not known; how many of them lack something, and are not known. */
  readonly unsettled:
    | readonly {
        readonly disposition: Disposition
        readonly rows: number
        readonly lacking: number
        readonly new: number
      }[]
    | null
}
const NO_ROWS: PageCounts = { scanned: 0, lacking: 0, last: null, unsettled: null }

/**
 * Reads rows of a source by key. Rows that no longer exist or no longer belong to the source are missing from the
 * result.
 * @param service whose lookups of the rows are of interest. Default: none
 */
export async function readCandidatesByKey(
  tx: Tx,
  source: Source,
  keys: readonly string[],
  service = 0,
): Promise<PickCandidate[]> {
  if (keys.length === 0) return []
  const page = keysQuery(
    source,
    await filterCastableKeys(tx, source, keys),
    lastWrittenSql(source).lastWritten,
  )
  const { rows } = await sql<Omit<PickCandidate, 'disposition'>>`
    select ${pageColumnsSql(source)}, ${candidateColumnsSql(source, service)}
      from (${page}) as page left join lateral (
        select ${rowColumnsSql(source)} from fillrate.rows where source = ${source.name} and key = page.key offset 0
      ) r on true`.execute(tx)
  return rows.map((row) => withEarlier({ ...row, disposition: 'abandoned' }))
}

/** What holds an earlier value lacks one. */
export const withEarlier = <Candidate extends Pick<PickCandidate, 'holdsEarlier' | 'lacks' | 'lacks_here'>>(
  candidate: Candidate,
): Candidate =>
  candidate.holdsEarlier
    ? {
        ...candidate,
        lacks: true,
        ...(candidate.lacks_here !== undefined && {
          lacks_here: candidate.lacks_here || candidate.holdsEarlier === 'here',
        }),
      }
    : candidate

/** The columns of `r` that the expressions below read: what was written, which may be large, only where it is needed. */
export const rowColumnsSql = (source: Source): RawBuilder<unknown> =>
  sql`key, state, deleted_at, run_id, lookup_id, missed_lookup_ids, service_id, input_hash, ${source.mapping.step.services.length === 0 ? sql`` : sql`only_blanks, cells_written,`} ${readsEarlier(source) ? sql`last_written is not null as "hasWritten", earlier_writes is not null as "hasEarlier",` : sql``} ${source.freshness === null ? sql`` : sql`last_written, earlier_writes,`} due_at, settled_at`

/** SQL: what a candidate has beside the columns of its page and its disposition, from `page` and `r`. */
export const candidateColumnsSql = (source: Source, service: number): RawBuilder<unknown> => sql`
  ${missedLookupsSql(source, service)} as missed, ${settledUntilSql(source)} as "settledUntil",
  coalesce(r.state <> ${sql.lit(Row.waiting)} and r.due_at <= now(), false) as "isDue", r.settled_at::text as "settledAt",
  ${holdsEarlierSql(source)} as "holdsEarlier"`

/**
 * SQL: whether a cell of the row in `page` holds what Fillrate wrote for earlier inputs. The table is read again, by key, only where
 * anything was: of a settled row nothing is.
 */
function holdsEarlierSql(source: Source): RawBuilder<string | null> {
  if (!readsEarlier(source)) return sql`null::text`
  return sql`case when r."hasEarlier" or (r."hasWritten" and r.input_hash is distinct from page.input_hash) then (
    select ${sql.raw(holdsAnyEarlierSql(source))}
      from (select ${earlierValuesSql(sql`page.input_hash`)} as "~earlier"
              from fillrate.rows r where r.source = ${source.name} and r.key = page.key offset 0) as "~own"
      join ${sql.raw(source.table.sql)} as t on ${sql.raw(keyMatchesSql(source, 'page.key'))} limit 1) end`
}

/** SQL: the disposition of a row that does not wait, from `page` and `r`. */
export const finishedDispositionSql = (source: Source, service: number): RawBuilder<Disposition> => sql`
  case when not page.lacks and ${holdsEarlierSql(source)} is null then 'complete'
       when ${settledUntilSql(source)} is not null then 'stamped'
       when r.key is null or r.input_hash is distinct from page.input_hash or r.due_at <= now() or r.deleted_at is not null
            or ${isFromOtherServiceSql(source, service)} or ${isStampRemovedSql(source)} then 'eligible'
       else 'fresh' end`

/**
 * SQL: until when the stamp in `page` settles the row; NULL if it does not. One that Fillrate wrote settles the row as it was
 * then: not with other inputs, and not what was picked since for these. Any other stamp settles it whatever Fillrate knows.
 */
function settledUntilSql(source: Source): RawBuilder<Date | null> {
  if (source.freshness === null) return sql`null::timestamptz`
  return sql`case when page.fresh_until > now() and (${isOwnStampSql(source)} is not true
      or (r.state = ${sql.lit(Row.enriched)} and r.input_hash = page.input_hash)) then page.fresh_until end`
}

/**
 * SQL: whether a user has removed or set back the stamp that Fillrate wrote, to have the row enriched again. While its record
 * is stored and not due, that costs nothing.
 */
function isStampRemovedSql(source: Source): RawBuilder<boolean> {
  if (source.freshness === null) return sql`false`
  return sql`(r.state = ${sql.lit(Row.enriched)} and not ${isOwnStampSql(source)})`
}

/**
 * SQL: whether the stamp in `page` is what Fillrate wrote, by this source or another, for whatever inputs: a row that was picked
 * with other ones has it among its earlier writes. NULL: it has written none.
 */
function isOwnStampSql({ freshness }: Source): RawBuilder<boolean | null> {
  if (freshness === null) return sql`null::boolean`
  const { column } = freshness.cell
  const isWritten = (row: string): RawBuilder<boolean | null> =>
    sql`coalesce(${sql.ref(`${row}.last_written`)} -> ${column}, ${sql.ref(`${row}.earlier_writes`)} #> array[${column}, '1']::text[]) = page.stamp`
  const isOwn = sql<boolean | null>`(${isWritten('r')})`
  const { sharedWith = [] } = freshness
  if (sharedWith.length === 0) return isOwn
  return sql`(case when ${isOwn} then true when exists (
      select from fillrate.rows o
       where o.source = any(${[...sharedWith]}::text[]) and o.key = page.key and ${isWritten('o')} offset 0)
    then true else ${isOwn} end)`
}

/** Whether the row `r` was finished with another service, whose responses say nothing about this one's. */
function isFromOtherServiceSql({ mapping }: Source, service: number): RawBuilder<boolean> {
  const { services } = mapping.step
  const last = services.at(-1)
  if (last === undefined)
    return sql`(r.service_id <> ${service} and (r.lookup_id is not null or r.missed_lookup_ids is not null))`
  // A row without a match at any service goes on to the services that were added since.
  return sql`(r.service_id is distinct from ${serviceNumberSql(last)} and (
      r.state in (${sql.join(statesThatGoOn('miss').map((state) => sql.lit(state)))})
      or r.service_id <> all(array(select id from fillrate.services where name = any(${[...services]}::text[])))))`
}

/** What Fillrate wrote last, for the policies that need it. */
export function lastWrittenSql(source: Source): { lastWritten?: LastWrittenRelation } {
  if (listTracked(source).length === 0) return {}
  return {
    lastWritten: sql`select key, input_hash, last_written as written from fillrate.rows where source = ${source.name}`,
  }
}

/** Lookups that were requested before the next one, in the order of their requests. */
export interface LookupsBefore {
  readonly ids: readonly number[]
  /** Of those of this service. */
  readonly kinds: readonly LookupKind[]
  /**
   * One of those was no miss: no other identifier is tried. Absent: there is one service, which then
   * is done with the row.
   */
  readonly isAnswered?: boolean
  /** When the last lookup may be requested again; with several services the first, or the first that found a record. */
  readonly dueAt: string | null
  /** What other services have left. Absent: there is one service. */
  readonly stepsBefore?: StepsBefore
}

/** The lookups that the row `r` missed at a service, while it waits with the inputs that `page` shows. */
function missedLookupsSql(source: Source, service: number): RawBuilder<LookupsBefore | null> {
  if (source.mapping.step.services.length > 0) return lookupsBeforeSql(service)
  if (!hasCascade(source.mapping)) return sql`null::jsonb`
  return sql`case when r.state = ${sql.lit(Row.waiting)} and r.input_hash = page.input_hash then (
    select jsonb_build_object('ids', jsonb_agg(l.id order by t.n), 'kinds', jsonb_agg(l.kind order by t.n),
                              'dueAt', max(l.refresh_at))
      from unnest(r.missed_lookup_ids) with ordinality t (id, n) join fillrate.lookups l on l.id = t.id and l.service_id = ${service}
    having count(*) > 0) end`
}

/** The same with the lookups of all services. Not null where the row waits with these inputs. */
const lookupsBeforeSql = (service: number) => sql<LookupsBefore | null>`
  case when r.state = ${sql.lit(Row.waiting)} and r.input_hash = page.input_hash then (
    select jsonb_build_object(
             'ids', coalesce(jsonb_agg(l.id order by t.n), '[]'),
             'kinds', coalesce(jsonb_agg(l.kind order by t.n) filter (where l.service_id = ${service}), '[]'),
             'isAnswered', coalesce(bool_or(l.service_id = ${service} and l.state in ('found', 'rejected')), false),
             'dueAt', coalesce(min(l.refresh_at) filter (where l.state = 'found'), min(l.refresh_at)),
             'stepsBefore', jsonb_build_object('onlyBlanks', r.only_blanks, 'cellsWritten', r.cells_written))
      from unnest(r.missed_lookup_ids) with ordinality t (id, n) join fillrate.lookups l on l.id = t.id) end`
