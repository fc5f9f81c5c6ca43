import { sql } from 'kysely'
import type { AnsweredState } from '../domain/lookup.ts'
import { ONLY_SERVICE, type StepPlace } from '../domain/mapping.ts'
import { statesThatGoOn, type EarlierWrites, type RowState, type StepsBefore } from '../domain/row.ts'
import type { SkippedCell } from '../domain/skipped-cell.ts'
import type { NewChange } from './changes.ts'
import { earlierAfterWriteSql, earlierWritesSql } from './own-values.ts'
import type { CellCounts } from './rows.ts'
import { deleteFilledCells, deleteSkippedCellsSql, insertSkippedCells } from './skipped-cells.ts'
import { isTrue, opaque, parseColumns, readOne, unnestByRow, type WithText } from './sql.ts'
import {
  ANSWERED_STATES,
  failureSql,
  IS_RUNNING,
  isAwaitedSql,
  serviceNumberSql,
  isHeldSql,
} from './terms.ts'
import type { Connection, Tx } from './transaction.ts'
import type { RunService } from './pending-lookups.ts'

export interface AnsweredRow {
  readonly key: string
  readonly inputHash: string
  readonly run: number | null
  readonly written: Record<string, unknown> | null
  /** What was written for earlier inputs. */
  readonly earlier: EarlierWrites | null
  readonly lookup: number
  readonly state: AnsweredState
  readonly reason: string | null
  readonly record: unknown
  readonly confidence: number | null
  readonly dueAt: Date | null
  /** What other services have left of the row. Absent: there is one service. */
  readonly stepsBefore?: FinishedSteps
}

/** What services before this one have left of a row. */
interface FinishedSteps extends StepsBefore {
  /**
   * When the first of the lookups that found a record is out of date, and the first of the others.
   * Null: there are none.
   */
  readonly foundDueAt: string | null
  readonly missedDueAt: string | null
  /** `remap` writes the record of one of its lookups (`requeueForRecord`). */
  readonly isRemapped: boolean
}

export interface ClaimedRow extends AnsweredRow {
  /** Where the row is, for as long as this transaction holds its lock. */
  readonly ctid: string
}

/** Claimed rows, and the places of the entries of the queue that their lookups were found in. */
interface ClaimedRows {
  readonly rows: readonly ClaimedRow[]
  readonly entries: readonly string[]
  /** Of their records as text. */
  readonly bytes: number
}

/**
 * Claims waiting rows of a source whose lookup has a result; locked, so that two processes never write the same
 * row. Skips postponed rows. Goes from the queue to the lookup of an entry and on to its rows, each by its index
 * (`offset 0`): the planner would otherwise scan all lookups, or all waiting rows, at every poll. Both return the
 * entry's place, or Postgres would cache them (Memoize), which hardly ever hits.
 * @param options.ofRunning only rows of runs in progress
 */
export async function claimForWriteBack(
  tx: Tx,
  source: string,
  limit: number,
  {
    service,
    ofRunning = false,
  }: Pick<StepPlace, 'service'> & { readonly ofRunning?: boolean } = ONLY_SERVICE,
): Promise<ClaimedRows> {
  const running = sql`(run_id is null or run_id = any(array(select id from fillrate.runs where ${IS_RUNNING})))`
  const { rows } = await sql<
    WithText<ClaimedRow, 'record' | 'written' | 'earlier'> & { readonly entry: string }
  >`
    select r.entry::text,
           r.key,
           r.ctid::text,
           r."inputHash",
           r.run_id as run,
           r.last_written::text as written,
           r.earlier_writes::text as earlier,
           l.id as lookup,
           l.state,
           l.reason,
           l.record::text, l.confidence, l.refresh_at as "dueAt" ${service === null ? sql`` : stepsBeforeSql}
      from fillrate.answered_lookups u
     cross join lateral (
       select u.ctid as entry, id, state, reason, record, confidence, refresh_at from fillrate.lookups
        where id = u.lookup_id and ${opaque(sql`state in (${ANSWERED_STATES})`)}
          ${service === null ? sql`` : sql`and ${opaque(sql`service_id = ${serviceNumberSql(service)}`)}`} offset 0
     ) l
     cross join lateral (
       select u.ctid as entry, ctid, key, input_hash::text as "inputHash", run_id, last_written, earlier_writes ${service === null ? sql`` : sql`, missed_lookup_ids, only_blanks, cells_written`}
         from fillrate.rows
        where lookup_id = l.id and ${opaque(sql`source = ${source} and state = 'waiting'`)}
          and ${opaque(sql`due_at is null or due_at <= now()`)} ${ofRunning ? sql`and ${opaque(running)}` : sql``}
          for no key update skip locked
     ) r
     limit ${limit}`.execute(tx)
  // A lookup in two entries gives its rows twice: `skip locked` skips no row that this transaction has locked itself.
  const keys = new Set<string>()
  const distinct = rows.filter(({ key }) => !keys.has(key) && keys.add(key))
  return {
    rows: parseColumns<ClaimedRow, 'record' | 'written' | 'earlier'>(distinct, [
      'record',
      'written',
      'earlier',
    ]),
    entries: [...new Set(rows.map((row) => row.entry))],
    bytes: rows.reduce((sum, row) => sum + (row.record?.length ?? 0), 0),
  }
}

/** SQL: `FinishedSteps` of the row `r`. */
const stepsBeforeSql = sql`, (
  select jsonb_build_object('onlyBlanks', r.only_blanks, 'cellsWritten', r.cells_written,
                            'isRemapped', coalesce(l.id = any(r.missed_lookup_ids), false),
                            'foundDueAt', min(refresh_at) filter (where state = 'found'),
                            'missedDueAt', min(refresh_at) filter (where state <> 'found'))
    from fillrate.lookups where id = any(r.missed_lookup_ids)) as "stepsBefore"`

export interface FinishedRow {
  readonly key: string
  /** Where the row is, if this transaction has locked it: it is not searched by its key. */
  readonly ctid?: string | undefined
  readonly state: RowState
  readonly reason: string | null
  /** What was written to it, recorded as a change. Null: nothing this time. */
  readonly change: NewChange | null
  /**
   * Columns of the change that it has only emptied of what was written for earlier inputs: Fillrate
   * owns nothing there.
   */
  readonly blanked?: readonly string[]
  /** It is not the row that was written for earlier inputs. */
  readonly isAnothers?: boolean
  /** What was written for earlier inputs and is the value for the present ones, too. */
  readonly confirmed?: Readonly<Record<string, unknown>> | null
  /** What the write left in columns that inputs read, for `own_writes`. Absent or null: nothing was written. */
  readonly ownWrites?: Record<string, unknown> | null
  readonly nextAt: Date | null
  readonly cells: CellCounts
  /** Values of the record that were not written. They replace those that are stored for the row. */
  readonly skipped: readonly SkippedCell[]
  /** Its lookups are those before `requeueForRecord` again. */
  readonly isRemapped?: boolean
  /** The cells that it filled after services before had found the row. */
  readonly filled?: readonly string[]
  /** Goes on to its next identifier because the lookup found nothing: the lookup is stored as missed. */
  readonly missed?: boolean
  /** It is no longer in the source: once it is back it is picked again, with whatever inputs. */
  readonly isMissing?: boolean
}

/**
 * Finishes rows; `waiting` without a lookup requeues them to be picked again. Skips rows that no longer wait.
 * @param untracked columns of changes that are not stored for `tracked`: those of `touch`
 */
export async function finishRows(
  tx: Connection,
  source: string,
  finished: readonly FinishedRow[],
  untracked: readonly string[] = [],
): Promise<void> {
  if (finished.length === 0) return
  const records = unnestByRow(
    source,
    finished.map(({ cells, change, blanked = [], ...row }) => ({
      ...row,
      ...change,
      blanked: blanked.length > 0 ? `{${blanked.map((column) => JSON.stringify(column)).join(',')}}` : null,
      cellsWritten: cells.written || null,
      cellsProtected: cells.protected || null,
      cellsSkipped: cells.skipped || null,
    })),
    {
      state: 'text',
      reason: 'text',
      before: 'jsonb',
      after: 'jsonb',
      writtenBefore: 'jsonb',
      earlierBefore: 'jsonb',
      ownWrites: 'jsonb',
      nextAt: 'timestamptz',
      blanked: 'text',
      confirmed: 'jsonb',
      isAnothers: 'boolean',
      cellsWritten: 'integer',
      cellsProtected: 'integer',
      cellsSkipped: 'integer',
      missed: 'boolean',
      isMissing: 'boolean',
    },
  )
  const keys = finished.map(({ key }) => key)
  const recorded = await sql`
    with cleared as (${deleteSkippedCellsSql(source, keys, { isWaiting: true })}), finished as (
    update fillrate.rows r
       set state = v.state, failure = ${failureSql(sql`v.state`)}, reason = v.reason, due_at = v."nextAt",
           settled_at = case when v.state = 'waiting' then null else now() end,
           lookup_id = case when v.state = 'waiting' then null else r.lookup_id end,
           input_hash = case when v."isMissing" then null else r.input_hash end,
           missed_lookup_ids = case when v.missed then r.missed_lookup_ids || r.lookup_id else r.missed_lookup_ids end,
           last_written = case when v."isMissing" then null when v.after is null and v.confirmed is null then r.last_written
                               else nullif(coalesce(r.last_written, '{}') || coalesce(v.after - ${[...untracked]}::text[] - coalesce(v.blanked::text[], '{}'), '{}')
                                           || coalesce(v.confirmed, '{}'), '{}') end,
           earlier_writes = case when v."isMissing" then ${earlierWritesSql()}
                                 when r.earlier_writes is null or (v.after is null and v.confirmed is null) then r.earlier_writes
                                 else ${earlierAfterWriteSql(sql`coalesce(v.after, '{}') || coalesce(v.confirmed, '{}')`, sql`v."isAnothers"`)} end,
           own_writes = nullif(coalesce(v."ownWrites", r.own_writes), '{}'),
           cells_written = coalesce(v."cellsWritten", 0) + case when r.only_blanks then r.cells_written else 0 end,
           cells_protected = coalesce(v."cellsProtected", 0) + case when r.only_blanks then r.cells_protected else 0 end,
           cells_skipped = coalesce(v."cellsSkipped", 0) + case when r.only_blanks then r.cells_skipped else 0 end
      from ${records}
     where r.ctid = v.ctid and ${opaque(sql`r.state = 'waiting' and r.source = ${source} and r.key = v.key`)}
    returning r.run_id, r.key, r.lookup_id, r.input_hash, v.before, v.after, v."writtenBefore", v."earlierBefore"
    )
    insert into fillrate.changes (run_id, source, key, lookup_id, input_hash, before, after, last_written_before, earlier_writes_before)
    select run_id, ${source}, key, lookup_id, input_hash, before, after, "writtenBefore", "earlierBefore" from finished
     where after is not null`.execute(tx)
  const changes = finished.filter(({ change }) => change !== null).length
  if (Number(recorded.numAffectedRows ?? 0) !== changes)
    throw new Error(
      `${changes} rows of source ${source} were written, and ${recorded.numAffectedRows} of their changes recorded: nothing is kept`,
    )
  await deleteFilledCells(tx, source, finished)
  await insertSkippedCells(tx, source, finished)
  await restoreLookups(tx, source, finished)
}

/**
 * Removes entries of the queue unless a row still waits for their lookup. Locks no lookup: a pick that lets a row wait for one
 * meanwhile inserts an entry of its own. Whatever is at such a place by then, no row waits for it.
 */
export async function dequeueWritten(db: Connection, entries: readonly string[]): Promise<void> {
  await sql`
    delete from fillrate.answered_lookups q
     where q.ctid = any(${[...entries]}::tid[]) and not ${isAwaitedSql()}`.execute(db)
}

/**
 * Removes entries whose lookup no row waits for: every write-back would read them again until some run claims a row. Two write-backs that
 * finish its last rows at the same moment leave one, and so does an erased lookup.
 */
export async function dequeueOrphaned(db: Connection, limit: number): Promise<void> {
  await sql`
    delete from fillrate.answered_lookups
     where ctid = any(array(select q.ctid from fillrate.answered_lookups q where not ${isAwaitedSql()}
                             limit ${limit} for update skip locked))`.execute(db)
}

/** Whether anything is queued: a poll that finds nothing needs no transaction. */
export const hasQueued = (db: Connection): Promise<boolean> =>
  isTrue(db, sql`exists (select from fillrate.answered_lookups)`)

/**
 * The sources whose rows wait for queued lookups.
 * @param most lookups that are looked at
 * @returns null: more are queued
 */
export async function listQueuedSources(db: Connection, most: number): Promise<ReadonlySet<string> | null> {
  const listed = sql<{ lookups: number; sources: string[] }>`
    with queued as materialized (select lookup_id from fillrate.answered_lookups limit ${most + 1})
    select (select count(*)::int from queued) as lookups,
           array(select distinct r.source from queued q cross join lateral (
             select source from fillrate.rows
              where lookup_id = q.lookup_id and ${opaque(sql`state = 'waiting'`)} offset 0) r) as sources`
  const { lookups, sources } = await readOne(db, listed)
  return lookups > most ? null : new Set(sources)
}

// Postponed rows: they have a result, but another transaction has locked them. Their `due_at` is the time of the next
// try.

/** Locks a claimed row with a result, if it still waits for the same lookup with the same inputs. */
export async function lockAnsweredRow(
  tx: Tx,
  source: string,
  { key, lookup, inputHash }: Pick<AnsweredRow, 'key' | 'lookup' | 'inputHash'>,
): Promise<boolean> {
  const { rows } = await sql`
    select key from fillrate.rows
     where source = ${source} and key = ${key} and state = 'waiting' and lookup_id = ${lookup}
       and input_hash is not distinct from ${inputHash}::bigint
       for no key update skip locked`.execute(tx)
  return rows.length > 0
}

/** SQL: when to retry a postponed row: after a quarter of the time that it has waited, between 1 s and 1 minute. */
const retryDelaySql = sql`least(greatest((now() - greatest(r.picked_at, l.resolved_at)) / 4, interval '1 s'), interval '1 minute')`

/** Postpones rows with a result: they keep waiting, with a reason and the time of the next try. */
export async function postponeRows(
  tx: Tx,
  source: string,
  keys: readonly string[],
  reason: string,
): Promise<void> {
  if (keys.length === 0) return
  await sql`
    update fillrate.rows r set due_at = now() + ${retryDelaySql}, reason = ${reason}
      from (select ctid, lookup_id from fillrate.rows
             where source = ${source} and key = any(${[...keys]}::text[])
               and ${opaque(sql`state = 'waiting'`)}
               for no key update skip locked) as held
      join fillrate.lookups l on l.id = held.lookup_id
     where r.ctid = held.ctid`.execute(tx)
}

/**
 * Hands finished rows on to the next service, within their run: each waits there to be picked again. A run that has ended leaves it to
 * the next pass (`resumeAtLaterStep`). A row whose run does not call that service stays finished. Call it in the transaction that finishes
 * them.
 */
export async function moveToNextStep(
  tx: Tx,
  source: string,
  keys: readonly string[],
  { next }: StepPlace,
): Promise<void> {
  if (next === null || keys.length === 0) return
  await sql`
    update fillrate.rows r
       set state = 'waiting', failure = null, reason = null, service_id = next.id, settled_at = null, due_at = null,
           only_blanks = r.only_blanks or r.state in ('enriched', 'unchanged'),
           missed_lookup_ids = case when r.lookup_id is null then r.missed_lookup_ids else r.missed_lookup_ids || r.lookup_id end,
           lookup_id = null
      from (select ${serviceNumberSql(next.service)} as id) next join fillrate.runs own on own.scopes ? next.id::text
     where r.source = ${source} and r.key = any(${[...keys]}::text[]) and own.id = r.run_id
       and ${opaque(sql`r.state = any(${[...statesThatGoOn(next.when)]}::text[]) and r.input_hash is not null`)}`.execute(
    tx,
  )
}

/**
 * Lets rows that an ended run left waiting at a later service go on there, in this run. What services before have found and written
 * decides about the next one, and is known only on the way.
 * @param services those of the source, in their order
 * @returns their keys
 */
export async function resumeAtLaterStep(
  tx: Tx,
  source: string,
  keys: readonly string[],
  { run, service, services }: RunService & Pick<StepPlace, 'services'>,
): Promise<string[]> {
  if (keys.length === 0) return []
  const { rows } = await sql<{ key: string }>`
    update fillrate.rows r set run_id = ${run}, lookup_id = null, reason = null, due_at = null
      from fillrate.runs own
     where r.source = ${source} and r.key = any(${[...keys]}::text[]) and ${opaque(sql`r.state = 'waiting'`)}
       and r.service_id <> ${service} and own.id = ${run} and own.scopes ? r.service_id::text
       and r.service_id in (select id from fillrate.services where name = any(${[...services]}::text[]))
       and not exists (select from fillrate.runs u where u.id = r.run_id and u.state = 'running' and ${isHeldSql(sql`u.leased_until`)})
    returning r.key`.execute(tx)
  return rows.map(({ key }) => key)
}

/** Lets rows whose inputs have changed since the last step begin anew, with the first service. */
export async function beginAnew(
  tx: Tx,
  source: string,
  keys: readonly string[],
  { services }: Pick<StepPlace, 'services'>,
): Promise<void> {
  const [first] = services
  if (keys.length === 0 || first === undefined) return
  await sql`
    update fillrate.rows set service_id = ${serviceNumberSql(first)}, missed_lookup_ids = null, only_blanks = false
     where source = ${source} and key = any(${[...keys]}::text[]) and ${opaque(sql`is_requeued`)}`.execute(tx)
}

/** Gives rows that `remap` has written their lookups back, in their order (`remap.ts:requeueForRecord`). */
async function restoreLookups(
  tx: Connection,
  source: string,
  finished: readonly { readonly key: string; readonly isRemapped?: boolean }[],
): Promise<void> {
  const keys = finished.filter(({ isRemapped }) => isRemapped === true).map(({ key }) => key)
  if (keys.length === 0) return
  const last = sql`missed_lookup_ids[cardinality(missed_lookup_ids)]`
  await sql`
    update fillrate.rows
       set lookup_id = case when state <> 'waiting' then ${last} end,
           missed_lookup_ids = nullif(missed_lookup_ids[:cardinality(missed_lookup_ids) - 1], '{}')
     where source = ${source} and key = any(${keys}::text[])`.execute(tx)
}
