import * as suppressions from './suppressions.ts'
import { sql, type RawBuilder } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import type { CallCost } from '../domain/lookup.ts'
import { ERASED_TEXT, type Identifier } from '../domain/subject.ts'
import { countCallsSql } from './spend.ts'
import { jsonBatch, readCount } from './sql.ts'
import { deliveringServiceSql, isOfRowSql } from './terms.ts'
import type { Tx } from './transaction.ts'

/** Reason stored on a row with an erased identifier, also while the erasure has not finished. */
export const SUPPRESSED_REASON = 'suppressed by forget: not looked up again'

export interface ErasedLookups {
  readonly lookups: number
  readonly records: number
  readonly rows: readonly { readonly source: string; readonly key: string }[]
  readonly changes: number
}

/** A lookup that identifiers occur in. */
export interface NamingLookup {
  readonly id: number
  readonly kind: LookupKind
  /** It is the lookup of one of these identifiers, or its input contains one. */
  readonly isRequested: boolean
  readonly record: unknown
}

/** Lookups per statement: each may have a record of a megabyte. */
const LOOKUPS_PER_PAGE = 200

/** SQL: kinds and keys, as a relation. */
const identifiersSql = (identifiers: readonly Identifier[]) =>
  sql`select * from unnest(${identifiers.map(({ kind }) => kind)}::text[], ${identifiers.map(({ key }) => key)}::text[])`

/** SQL: the short forms of the key of a name, as `listNameKeys` has them: services take different details. */
const nameFormsSql = sql`(
  select array_agg(n.name || '|' || c.company)
    from (values (split_part(key, '|', 1)), (split_part(key, '|', 3) || '+' || split_part(key, '|', 4))) n (name)
   cross join (values (split_part(key, '|', 2)), (split_part(key, '|', 5))) c (company)
   where n.name not in ('', '+') and c.company <> '')`

/** Lookups of identifiers, and those whose record or input contains one, with an id after the given one. */
export async function findLookups(
  tx: Tx,
  identifiers: readonly Identifier[],
  { inputs, pattern, after }: { readonly inputs: string; readonly pattern: string; readonly after: number },
): Promise<{ readonly lookups: NamingLookup[]; readonly next: number | null }> {
  const names = identifiers.flatMap(({ kind, key }) => (kind === 'name_company' ? key : []))
  const isName =
    names.length === 0 ? sql`false` : sql`(kind = 'name_company' and ${nameFormsSql} && ${names}::text[])`
  const isRequested = sql<boolean>`((kind, key) in (${identifiersSql(identifiers)}) or ${isName} or input::text ~* ${inputs})`
  const { rows } = await sql<NamingLookup>`
    select id, kind, ${isRequested} as "isRequested", record from fillrate.lookups
     where id > ${after} and (${isRequested} or record::text ~* ${pattern}) order by id
     limit ${LOOKUPS_PER_PAGE}`.execute(tx)
  return { lookups: rows, next: rows.length < LOOKUPS_PER_PAGE ? null : (rows.at(-1)?.id ?? null) }
}

/** A row of a source. */
export interface RowName {
  readonly source: string
  readonly key: string
}

const rowNamesSql = (rows: readonly RowName[]) =>
  sql`select * from unnest(${rows.map((row) => row.source)}::text[], ${rows.map((row) => row.key)}::text[]) k (source, key)`

/** A lookup of the subject. */
export interface LinkedLookup extends Identifier {
  readonly id: number
}

/**
 * One step of the links between what is stored of a subject: the rows that used its lookups, all lookups of
 * its rows, and the lookups of their identifiers at every service. Among the lookups of a row are those of
 * earlier inputs that wrote to it, unless another row uses that identifier now.
 * @param known lookups that need not be returned
 */
export async function findLinked(
  tx: Tx,
  {
    ids,
    known,
    rows,
    identifiers,
  }: {
    readonly ids: readonly number[]
    readonly known: readonly number[]
    readonly rows: readonly RowName[]
    readonly identifiers: readonly Identifier[]
  },
): Promise<{
  readonly lookups: readonly (LinkedLookup & { readonly record: unknown })[]
  readonly rows: RowName[]
}> {
  const these = sql`${[...ids]}::bigint[]`
  const named = await sql<RowName>`
    select source, key from fillrate.rows where lookup_id = any(${these}) or missed_lookup_ids && ${these}
     union ${rowNamesSql(rows)}`.execute(tx)
  const lookups = await sql<LinkedLookup & { readonly record: unknown }>`
    with named as materialized (${rowNamesSql(named.rows)}), used as (
      select unnest(r.missed_lookup_ids || r.lookup_id) as id from named join fillrate.rows r using (source, key)
       union select unnest(${these})
    ), earlier as materialized (
      select l.kind, l.key from fillrate.lookups l join (
        select c.lookup_id from named join fillrate.changes c using (source, key)
         union select c.lookup_id from named join fillrate.skipped_cells c using (source, key)) c on c.lookup_id = l.id
    ), subject as materialized (
      select l.kind, l.key from used join fillrate.lookups l using (id)
       union ${identifiersSql(identifiers)}
       union select e.kind, e.key from earlier e
        where not exists (
          select from fillrate.lookups l
           where l.kind = e.kind and l.key = e.key and ${isOfRowSql(sql`r.deleted_at is null`)})
    )
    select id, kind, key, record from subject join fillrate.lookups using (kind, key)
     where id <> all(${[...known]}::bigint[])`.execute(tx)
  return { lookups: lookups.rows, rows: named.rows }
}

/** Keys of the jobs that have one of these lookups as a member. */
export async function findJobsOfLookups(tx: Tx, ids: readonly number[]): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select key as id from fillrate.jobs where lookup_ids && ${[...ids]}::bigint[]`.execute(tx)
  return rows.map((row) => row.id)
}

const isOfJobsSql = (jobs: readonly string[]): RawBuilder<boolean> => sql`(
  job_key = any(${[...jobs]}::uuid[])
  or (job_id, ${deliveringServiceSql(sql`service_id`)}) in (
    select job_id, service_id from fillrate.jobs where key = any(${[...jobs]}::uuid[])))`

/** What answered a call of a lookup that is erased instead. */
interface ErasedAnswer {
  readonly id: number
  readonly token: string
  readonly call?: CallCost | undefined
  readonly credits?: number | undefined
}

/**
 * Erases lookups with their records and inputs, the changes and skipped cells of their rows, and all else of these
 * rows except their keys; of deleted rows the keys too. Leaves a suppression hash for each lookup.
 * @param options.rows further rows of the subject, whether or not they have a lookup
 * @param options.answers calls that are counted although their answers are not stored. Other calls in flight are
 *   counted as in doubt: their answers find no lookup
 */
export async function eraseLookups(
  tx: Tx,
  ids: readonly number[],
  {
    rows: named = [],
    answers = [],
  }: { readonly rows?: readonly RowName[]; readonly answers?: readonly ErasedAnswer[] } = {},
): Promise<ErasedLookups> {
  const these = sql`${[...ids]}::bigint[]`
  const hasLookup = sql`(r.lookup_id = any(${these}) or r.missed_lookup_ids && ${these})`
  const found = sql`(
    select source, key, true as is_named from (${rowNamesSql(named)}) n
     union all select source, key, false from fillrate.rows r where ${hasLookup}) f`
  // A row that was locked may have another subject by then.
  const isOfSubject = sql`r.source = f.source and r.key = f.key and (f.is_named or ${hasLookup})`
  // Rows first: this waits for a write-back that holds one of them, and then sees its changes.
  const deletedRows = await sql<RowName>`
    delete from fillrate.rows r using ${found} where ${isOfSubject} and r.deleted_at is not null
    returning r.source, r.key`.execute(tx)
  const { rows } = await sql<RowName>`
    with erased as (
      update fillrate.rows r
         set state = 'suppressed', failure = null, reason = ${SUPPRESSED_REASON}, notes = null,
             lookup_id = null, missed_lookup_ids = null, settled_at = now(), due_at = null,
             last_written = null, earlier_writes = null, own_writes = null
        from ${found}
       where ${isOfSubject}
         and (r.state <> 'suppressed' or
              num_nonnulls(r.lookup_id, r.missed_lookup_ids, r.last_written, r.earlier_writes, r.own_writes) > 0)
      returning r.source, r.key
    )
    select source, key from erased order by source, key`.execute(tx)
  const { rows: deleted } = await sql<{ changes: number }>`
    with keys as (
      ${rowNamesSql([...rows, ...deletedRows.rows, ...named])}
       union select source, key from fillrate.changes where lookup_id = any(${these})
    ), deleted as (
      delete from fillrate.changes c using keys k where k.source = c.source and k.key = c.key
      returning c.source, c.key
    ), unclaimed as (
      -- A row whose subject has changed since loses only what was written before.
      update fillrate.rows r set last_written = null, earlier_writes = null, own_writes = null from (select distinct source, key from deleted) g
       where r.source = g.source and r.key = g.key and num_nonnulls(r.last_written, r.earlier_writes, r.own_writes) > 0
    ), unskipped as (
      delete from fillrate.skipped_cells c using keys k where k.source = c.source and k.key = c.key
    )
    select count(*) as changes from deleted`.execute(tx)
  const lookups = await deleteLookups(tx, ids, answers)
  await suppressions.insertSuppressions(tx, lookups)
  return {
    lookups: lookups.length,
    records: lookups.filter(({ record }) => record).length,
    rows,
    changes: deleted[0]?.changes ?? 0,
  }
}

interface ErasedLookup extends Identifier {
  /** It had one. */
  readonly record: boolean
}

/** Deletes lookups, and counts their calls that are answered or in flight. */
async function deleteLookups(
  tx: Tx,
  ids: readonly number[],
  answers: readonly ErasedAnswer[],
): Promise<ErasedLookup[]> {
  const { rows } = await sql<ErasedLookup>`
    with gone as (
      delete from fillrate.lookups where id = any(${[...ids]}::bigint[])
      returning id, kind, key, run_id, service_id, source, state, lease_token, most,
                record is not null as record
    ), answered as (
      select * from jsonb_to_recordset(${jsonBatch(answers.map(({ id, token, call = null, credits = null }) => ({ id, token, call, credits })))})
          as v (id bigint, token uuid, call text, credits numeric)
    ), stored as (
      select g.run_id,
             g.service_id,
             g.source,
             g.kind,
             v.call,
             coalesce(v.credits, (v.call = 'billed')::integer, 0) as credits,
             d.doubt,
             d.doubt * coalesce(g.most, 1) as credits_in_doubt,
             null::numeric as overrun
        from gone g left join answered v on v.id = g.id and v.token = g.lease_token
       cross join lateral (select (v.id is null and g.state = 'leased')::integer as doubt) d
    ), ${countCallsSql}
    select kind, key, record from gone`.execute(tx)
  return rows
}

/**
 * The ids of deliveries that may hold a copy: those of the jobs, those whose body matches the pattern, and those with
 * escapes in which it could be written differently. Reads all deliveries, locks none.
 * @param pattern null: only those of the jobs
 */
export async function findDeliveries(
  tx: Tx,
  jobs: readonly string[],
  pattern: string | null,
): Promise<string[]> {
  const mayName = sql`(body ~* ${pattern} or body ~ '\\\\u00[0-7]|\\\\/' or encode(raw, 'escape') ~* ${pattern})`
  const { rows } = await sql<{ id: string }>`
    select id from fillrate.deliveries
     where ${isOfJobsSql(jobs)} or ${pattern === null ? sql`false` : mayName} order by id`.execute(tx)
  return rows.map((row) => row.id)
}

interface StoredDelivery {
  readonly id: string
  readonly service: number | null
  readonly job: string | null
  readonly jobId: string | null
  /** Null: it cannot be read. */
  readonly body: string | null
  /** Some of its results were quarantined: their order says nothing. */
  readonly isUnordered: boolean
  /** A page: how many results of its job are on the pages before. */
  readonly firstPlace: number | null
}

/** Locks deliveries and reads their bodies. */
export async function lockDeliveries(tx: Tx, ids: readonly string[]): Promise<StoredDelivery[]> {
  const { rows } = await sql<StoredDelivery>`
    select id, ${deliveringServiceSql(sql`service_id`)} as service, job_key as job, job_id as "jobId", body,
           state = 'quarantined' or quarantined_results > 0 as "isUnordered",
           case when state = 'partial' then (
             select coalesce(sum(case when json_typeof(p.body::json -> 'results') = 'array' then json_array_length(p.body::json -> 'results') end), 0)
               from fillrate.deliveries p
              where p.job_key = d.job_key and p.state = 'partial' and p.event_id < d.event_id) end as "firstPlace"
      from fillrate.deliveries d
     where id = any(${[...ids]}::uuid[]) order by id
       for no key update`.execute(tx)
  return rows
}

/** SQL: a text in the collation of the database. In that of the indexed columns, only ASCII letters match in any case. */
const inAnyCaseSql = (text: RawBuilder<unknown>): RawBuilder<unknown> => sql`(${text} collate "default")`

/** Tables that store cells of rows. */
const CELL_TABLES = {
  rows: { columns: ['last_written', 'earlier_writes', 'own_writes'] },
  changes: { columns: ['before', 'after', 'last_written_before', 'earlier_writes_before'] },
  skipped_cells: { columns: ['detail', 'value'] },
} as const
export type CellTable = keyof typeof CELL_TABLES
export const cellTables = Object.keys(CELL_TABLES) as CellTable[]

const searchedTextSql = (table: CellTable) =>
  inAnyCaseSql(
    sql`concat_ws(' ', key, ${sql.join(CELL_TABLES[table].columns.map((column) => sql`${sql.ref(column)}::text`))})`,
  )

/**
 * Physical places (ctid) of rows whose key or cells match. Searches without a lock, and `eraseCells` changes
 * by place: searching a large table takes minutes, and no pick or write-back may wait for that. A row that
 * moves meanwhile is found by the next search.
 */
export async function findCells(tx: Tx, table: CellTable, pattern: string): Promise<string[]> {
  const { rows } = await sql<{ place: string }>`
    select ctid::text as place from ${sql.table(`fillrate.${table}`)} where ${searchedTextSql(table)} ~* ${pattern}`.execute(
    tx,
  )
  return rows.map((row) => row.place)
}

/**
 * Erases what is stored of rows whose key names the subject, and of other rows the cells whose values do. Such a cell is left out, not
 * replaced: undo would write the replacement.
 */
export async function eraseCells(
  tx: Tx,
  places: Readonly<Partial<Record<CellTable, readonly string[]>>>,
  pattern: string,
): Promise<Pick<ErasedLookups, 'rows' | 'changes'> & { readonly mentions: number }> {
  const isAt = (table: CellTable) => sql`ctid = any(${[...(places[table] ?? [])]}::tid[])`
  const isNamed = sql`${inAnyCaseSql(sql`key`)} ~* ${pattern}`
  const names = (value: RawBuilder<unknown>) =>
    sql`coalesce(${inAnyCaseSql(sql`(${value})::text`)} ~* ${pattern}, false)`
  /** The object without the cells that one of these objects names the subject in. */
  const without = (cells: RawBuilder<unknown>, ...all: RawBuilder<unknown>[]) => sql`
    case when jsonb_typeof(${cells}) = 'object' then
      (select coalesce(jsonb_object_agg(c.k, c.v), '{}') from jsonb_each(${cells}) c (k, v)
        where not (${sql.join(
          all.map((part) => names(sql`${part} -> c.k`)),
          sql` or `,
        )})) else ${cells} end`
  const count = async (statement: RawBuilder<unknown>): Promise<number> =>
    Number((await statement.execute(tx)).numAffectedRows ?? 0)

  const { rows } = await sql<RowName>`
    delete from fillrate.rows where ${isAt('rows')} and ${isNamed} returning source, key`.execute(tx)
  const written = CELL_TABLES.rows.columns
  let mentions = await count(sql`
    update fillrate.rows set ${sql.join(written.map((column) => sql`${sql.ref(column)} = ${without(sql.ref(column), sql.ref(column))}`))}
     where ${isAt('rows')} and (${sql.join(
       written.map((column) => names(sql.ref(column))),
       sql` or `,
     )})`)
  const recorded = CELL_TABLES.changes.columns
  const all = recorded.map((column) => sql.ref(column))
  const changes = await count(sql`delete from fillrate.changes where ${isAt('changes')} and ${isNamed}`)
  mentions += await count(sql`
    update fillrate.changes set ${sql.join(recorded.map((column) => sql`${sql.ref(column)} = ${without(sql.ref(column), ...all)}`))}
     where ${isAt('changes')} and ${names(sql`concat_ws(' ', ${sql.join(all)})`)}`)
  // Nothing is left of the places: an update moves a row.
  mentions += await count(sql`delete from fillrate.skipped_cells where ${isAt('skipped_cells')}`)
  return { rows, changes, mentions }
}

/** Every table that the migrations create, without their own. */
export const OWN_TABLES: readonly string[] = `
  answered_lookups audit_events changed_rows changed_rows_spare changes circuit_breakers conditions deliveries
  jobs leases lookups processes rate_limits row_counts rows runs
  scheduled_runs services skipped_cells source_state spend suppressions`
  .trim()
  .split(/\s+/)

/** A column in the schema `fillrate` that can hold text. */
export interface TextColumn {
  readonly table: string
  readonly column: string
  readonly type: string
  /** Its text cannot be replaced: it is part of a key, or its table may be the user's. */
  readonly isKept: boolean
}

/**
 * Every text, JSON or bytea column of the schema `fillrate`, from the catalogue. A table that this version does not know may be one of
 * a later version, or the user's: what is found there is reported.
 */
export async function listTextColumns(tx: Tx): Promise<TextColumn[]> {
  const { rows } = await sql<TextColumn>`
    select c.relname as table, a.attname as column, t.typname as type,
           c.relname <> all(${[...OWN_TABLES]}::text[])
             or exists (select from pg_index i where i.indrelid = c.oid and i.indisunique and a.attnum = any(i.indkey)) as "isKept"
      from pg_attribute a
      join pg_class c on c.oid = a.attrelid and c.relkind in ('r', 'p')
      join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'fillrate'
      join pg_type t on t.oid = a.atttypid
     where a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
       and t.typname in ('text', 'varchar', 'json', 'jsonb', 'bytea', '_text', '_varchar', '_jsonb')
     order by 1, 2`.execute(tx)
  return rows
}

const columnTextSql = ({ column, type }: TextColumn) =>
  inAnyCaseSql(type === 'bytea' ? sql`encode(${sql.ref(column)}, 'escape')` : sql`${sql.ref(column)}::text`)

/**
 * Whether a column holds what is sent to the service, settled, or written to a user's table: there a placeholder would be
 * taken for a value (undo writes the former cells, a lookup requests its input), so that matches are erased by
 * `eraseLookups`, `eraseCells` and the results of deliveries, and never replaced in the text.
 */
export const isErasedByMeaning = ({ table, column }: Pick<TextColumn, 'table' | 'column'>): boolean =>
  (CELL_COLUMNS[table] ?? BY_MEANING[table])?.includes(column) === true

const CELL_COLUMNS: Readonly<Record<string, readonly string[]>> = Object.fromEntries(
  Object.entries(CELL_TABLES).map(([table, { columns }]) => [table, columns]),
)
const BY_MEANING: Readonly<Record<string, readonly string[]>> = { lookups: ['input'], deliveries: ['body'] }

/** The number of rows whose column matches a pattern. */
export const countMatches = (tx: Tx, column: TextColumn, pattern: string): Promise<number> =>
  readCount(tx, sql`${sql.table(`fillrate.${column.table}`)} where ${columnTextSql(column)} ~* ${pattern}`)

/**
 * Replaces what a pattern matches by `[erased]`, in a text or JSON column. All matches are found before the
 * first is locked, for the same reason as in `findCells`.
 * @param subject its own lookups, which are erased: they link its identifiers until then
 * @returns the number of rows
 */
export async function redactColumn(
  tx: Tx,
  column: TextColumn,
  pattern: string,
  subject: readonly number[],
): Promise<number> {
  if (column.isKept || !REDACTABLE.has(column.type)) return 0
  const table = sql.table(`fillrate.${column.table}`)
  const name = sql.ref(column.column)
  const text = columnTextSql(column)
  const isLookup = column.table === 'lookups'
  const isOther = isLookup ? sql`id <> all(${[...subject]}::bigint[])` : sql`true`
  // In a record, a value that is the identifier becomes null: a cell may be filled with it.
  const whole = `"[^"\\s]*(?:${pattern})[^"\\s]*"(?!\\s*:)`
  const isRecord = isLookup && column.column === 'record'
  const shortened = isRecord ? sql`regexp_replace(${text}, ${whole}, 'null', 'gi')` : text
  const result = await sql`
    update ${table}
       set ${name} = regexp_replace(${shortened}, ${pattern}, ${ERASED_TEXT}, 'gi')::${sql.raw(column.type)}
     where ctid = any(array(select ctid from ${table} where ${isOther} and ${text} ~* ${pattern}))
       and ${text} ~* ${pattern}`.execute(tx)
  return Number(result.numAffectedRows ?? 0)
}

const REDACTABLE = new Set(['text', 'varchar', 'json', 'jsonb'])
