import { sql, type RawBuilder } from 'kysely'
import type { RawInputs } from '../domain/identifiers/choose.ts'
import { POLICY_RULES, type InputName } from '../domain/mapping.ts'
import { NON_ROW_STATES } from '../util/error-text.ts'
import { currentCellSql, holdsLastWrittenSql, isBlankSql, isReachableSql } from './cell.ts'
import { query, queryValue, tryQuery, isRowError, quoteLiteral, quoteName, type Db } from './db.ts'
import { findFault, renderExpression, withCaret } from './expression.ts'
import { freshUntilSql, stampJsonSql } from './freshness.ts'
import { belongsSql, joinsSql, MAPPING_INPUTS, mayRepeatKeys, rowInputsSql } from './inputs.ts'
import {
  afterKeySql,
  hasKeySql,
  keyFromTextSql,
  keyMatchesSql,
  keyOrderSql,
  keyTextSql,
  orderBySql,
  upToKeySql,
} from './key.ts'
import { SourceProblems } from './problems.ts'
import type { MappedOutput, Source } from './source-model.ts'

/** A row of a page, with the inputs that the source has. */
export interface PageRow extends Partial<RawInputs> {
  /** The key as text; of several columns, a JSON array. */
  readonly key: string
  /** Hash of the raw inputs, without what Fillrate wrote itself: the digits of a bigint, most of which are beyond 2^53. */
  readonly input_hash: string
  /** The inputs that Fillrate filled itself: not requested with. Null or absent: none. */
  readonly filled?: Readonly<Partial<Record<InputName, string>>> | null
  /** Whether any cell of the row may be written. */
  readonly lacks: boolean
  /** The same of the cells that this service fills. Absent where others fill no further ones. */
  readonly lacks_here?: boolean
  /** Until when its stamp keeps it fresh; null: no stamp. Absent without `freshness`. */
  readonly fresh_until?: Date | null
  /** The stamp, as it is stored with what Fillrate wrote. Absent without `freshness`. */
  readonly stamp?: unknown
}

/** The same in SQL. There the hash is a bigint: the driver would read it as a rounded number, so that it is no column of this type. */
type PageRelation = RawBuilder<Omit<PageRow, 'input_hash'>>

/** A relation of `key text`, `input_hash bigint` and `written jsonb`: what Fillrate last wrote for these inputs. Only `tracked` outputs need it. */
export type LastWrittenRelation = RawBuilder<{ key: string; input_hash: unknown; written: unknown }>

export interface SourcePageOptions {
  /** The last key of the page before; null for the first page. */
  readonly after: string | null
  /** The last key to read; null or absent: to the end. */
  readonly until?: string | null
  /** Maximum number of rows. */
  readonly limit: number
  /** A condition in addition to the source's own. */
  readonly where: string | null
  /** Without it, a `tracked` cell counts as lacking only if it is blank. */
  readonly lastWritten?: LastWrittenRelation
}

/** The columns of a `PageRow` that a source has: each one more is stored, joined, sorted and sent for every row. */
const pageColumns = (source: Source): readonly (keyof PageRow)[] => [
  'key',
  'input_hash',
  ...(source.ownWrites?.isInput === true ? (['filled'] as const) : []),
  ...MAPPING_INPUTS.filter((name) => source.mapping.inputs[name] !== undefined),
  'lacks',
  ...(source.laterOutputs === undefined ? [] : (['lacks_here'] as const)),
  ...(source.freshness === null ? [] : (['fresh_until', 'stamp'] as const)),
]

/** SQL: the columns of a `PageRow`, from a relation `page`. */
export const pageColumnsSql = (source: Source): RawBuilder<unknown> =>
  sql.raw(
    pageColumns(source)
      .map((column) => (column === 'input_hash' ? 'page.input_hash::text' : `page.${column}`))
      .join(', '),
  )

/**
 * One page of a source in key order, as a relation for a CTE, with the columns of `pageOrderSql` too. Walks the
 * key's index from `after`, so that a page costs the same on a table of any size. Joins that give two rows for a
 * key fail with `invalid input syntax` and a text that names the key: see `parseDuplicateKey`.
 * @throws SourceProblems if `where` is not an expression
 */
export function pageQuery(source: Source, options: SourcePageOptions): PageRelation {
  const conditions = pageConditions(source, options)
  const order = pageOrderSql(source, '')
  if (!mayRepeatKeys(source))
    return sql`${pageRelation(source, sql`${conditions} limit ${options.limit}`, options.lastWritten)} order by ${order}`
  // One row more than requested: it may be a second row for the page's last key.
  const rows = sql`${conditions} limit ${options.limit + 1}`
  return sql`select * from (${pageRelation(source, rows, options.lastWritten)}) as p order by ${order} limit ${options.limit}`
}

/** The key that ends a page, before it is read; no row if less than a page is left. Mostly reads an index alone. */
export const pageEndQuery = (source: Source, options: SourcePageOptions): RawBuilder<{ key: string }> => sql`
  select ${sql.raw(keyTextSql(source))} as key from ${sql.raw(source.table.sql)} as t ${sql.raw(joinsSql(source))}
   where ${pageConditions(source, options)} offset ${options.limit - 1} limit 1`

/** SQL: what orders the rows of a page by key. */
export const pageOrderSql = (source: Source, alias = 'page.'): RawBuilder<unknown> =>
  sql.raw(source.keyOrder.map((column, i) => orderBySql(column, `${alias}"~order${i}"`)).join(', '))

/** The conditions and the order of a page: what follows WHERE. */
export function pageConditions(
  source: Source,
  options: Omit<SourcePageOptions, 'limit'>,
): RawBuilder<unknown> {
  const conditions = [sql.raw<boolean>(belongsSql(source)), sql.raw<boolean>(hasKeySql(source))]
  if (options.where !== null) conditions.push(sql.raw(`(${renderWhere(source, options.where)}\n)`))
  if (options.after !== null) conditions.push(afterKeySql(source, options.after))
  if (options.until != null) conditions.push(upToKeySql(source, options.until))
  return sql`${sql.join(conditions, sql` and `)} order by ${sql.raw(keyOrderSql(source))}`
}

/** The same for given keys, unordered, without the columns of `pageOrderSql`. Skips keys that are deleted or no longer in the source. */
export function keysQuery(
  source: Source,
  keys: readonly string[],
  written?: LastWrittenRelation,
): PageRelation {
  const given = sql`(select distinct "~key" from unnest(${[...keys]}::text[]) as "~given"("~key"))`
  const matches = sql.raw(keyMatchesSql(source, '"~keys"."~key"'))
  const conditions = sql`${sql.raw(belongsSql(source))}`
  const rows = pageRelation(source, conditions, written, sql` join ${given} as "~keys" on ${matches}`)
  return sql`select ${sql.join(pageColumns(source).map((column) => sql.ref(column)))} from (${rows}) as page`
}

/** The outputs that are compared with what was last written: of the source's service and of those after it. */
export const listTracked = ({ outputs, laterOutputs = [] }: Source): MappedOutput[] =>
  [...outputs, ...laterOutputs].filter(({ mapping }) => POLICY_RULES[mapping.policy].readsLastWritten)

function pageRelation(
  source: Source,
  conditions: RawBuilder<unknown>,
  written: LastWrittenRelation | undefined,
  keys: RawBuilder<unknown> = sql``,
): PageRelation {
  const { laterOutputs = [] } = source
  const tracked = written ? listTracked(source) : []
  const inputs = rowInputsSql(source)
  const values: Readonly<Record<keyof PageRow, string>> = {
    key: keyTextSql(source),
    input_hash: inputs.hash,
    filled: inputs.filled,
    ...inputs.values,
    lacks: isIncompleteSql(source),
    lacks_here: isIncompleteSql({ outputs: source.laterOutputs ?? [] }),
    fresh_until: freshUntilSql(source),
    stamp: stampJsonSql(source),
  }
  const names = pageColumns(source)
  const columns = [
    ...names.map((name) => `${values[name]} as ${name}`),
    ...source.keyOrder.map((column, i) => `t.${quoteName(column.name)} as "~order${i}"`),
    ...tracked.map((output, i) => `${currentCellSql(output)} as "~tracked${i}"`),
  ]
  const rows = sql`
    select ${sql.raw(columns.join(', '))}
      from ${sql.raw(source.table.sql)} as t${keys} ${sql.raw(joinsSql(source) + inputs.from)}
     where ${conditions}`
  const lacksSql = (isLater: boolean): RawBuilder<unknown> => {
    const isOurs = tracked.flatMap((output, i) =>
      laterOutputs.includes(output) === isLater
        ? [holdsLastWrittenSql(output, `(w.written -> ${quoteLiteral(output.column)})`, `r."~tracked${i}"`)]
        : [],
    )
    const lacks = sql.raw(isLater ? 'lacks_here' : 'lacks')
    return written && isOurs.length > 0
      ? sql`(${lacks} or exists (
        select from (${written}) as w where w.key = r.key and w.input_hash = r.input_hash and (${sql.raw(isOurs.join(' or '))})))`
      : lacks
  }
  const lacks = lacksSql(false)
  const order = source.keyOrder.map((_, i) => `"~order${i}"`).join(', ')
  // To count copies is a sort of the page.
  const [key, relation] = mayRepeatKeys(source)
    ? [
        `case when copies = 1 then key else ${duplicateKeySql(source)} end`,
        sql`(select r.*, count(*) over (partition by key) as copies from (${rows}) as r)`,
      ]
    : ['key', sql`(${rows})`]
  // Inside, `lacks` is of this service's cells, and `lacks_here` of the others.
  const hasLater = names.includes('lacks_here')
  const given = names.map((name) => {
    if (name === 'lacks')
      return hasLater ? sql`${lacks} or ${lacksSql(true)} as lacks` : sql`${lacks} as lacks`
    if (name === 'lacks_here') return sql`${lacks} as lacks_here`
    return sql.raw(name === 'key' ? `${key} as key` : name)
  })
  return sql`
    select ${sql.join(given)}, ${sql.raw(order)}
      from ${relation} as r`
}

/**
 * SQL: whether any cell may be written, whatever Fillrate wrote before. Looks for a NULL first: that costs nothing, and most
 * rows that lack something have one.
 */
function isIncompleteSql(source: Pick<Source, 'outputs'>): string {
  const nulls = source.outputs
    .filter(({ path, mapping }) => path.length === 0 && !POLICY_RULES[mapping.policy].replacesOthers)
    .map((output) => `${currentCellSql(output)} is null`)
  const cells = source.outputs.map((output) => {
    const open = POLICY_RULES[output.mapping.policy].replacesOthers ? 'true' : isBlankSql(output)
    return output.path.length > 0 ? `(${open} and ${isReachableSql(output)})` : open
  })
  return cells.length === 0 ? 'false' : `(${[...nulls, ...cells].join(' or ')})`
}

/** SQL has no expression that fails with a given text; a cast that cannot succeed shows its operand, quoted as its language does. */
const duplicateKeySql = (source: Source): string =>
  `(${quoteLiteral(`source ${source.name}: more than one row for key `)} || key || ' in a page')::int::text`

/**
 * Those keys that can be keys of the source: one that no longer casts to the key's type, because the type has changed,
 * is a missing row. Tries them one by one only if not all of them cast.
 * @param tx a transaction; it is not aborted
 */
export async function filterCastableKeys(
  tx: Db,
  source: Source,
  keys: readonly string[],
): Promise<readonly string[]> {
  if (keys.length === 0) return keys
  const parts = keyFromTextSql(source, 'k.key')
  const all = await tryQuery(
    tx,
    `select count(p) from unnest($1::text[]) as k(key) cross join lateral ${parts} as p`,
    [keys],
  )
  if (all === null) return keys
  if (!isRowError(all)) throw all
  await query(tx, `select set_config('fillrate.keys', $1, true)`, [JSON.stringify(keys)])
  await query(tx, tryEachSql(parts))
  const found = await queryValue<string>(tx, `select current_setting('fillrate.fine')`)
  const fine = new Set(JSON.parse(found ?? '[]') as string[])
  return keys.filter((key) => fine.has(key))
}

/**
 * Those keys that no row of the source's table has, whatever `where` and `joins` say: a row that has left the source is
 * still there. A key that cannot be one of the table, because the type has changed, is no row's.
 *
 * One index probe for each key: `offset 0` keeps the planner from reading the whole table for a page of keys.
 * @param tx a transaction; it is not aborted
 */
export async function findDeletedKeys(tx: Db, source: Source, keys: readonly string[]): Promise<string[]> {
  if (keys.length === 0) return []
  const castable = await filterCastableKeys(tx, source, keys)
  const present = new Set(
    (
      await query<{ key: string }>(
        tx,
        `select "~given"."~key" as key from unnest($1::text[]) as "~given"("~key")
          where exists (select from ${source.table.sql} as t
                         where ${keyMatchesSql(source, '"~given"."~key"')} offset 0)`,
        [castable],
      )
    ).map((row) => row.key),
  )
  return keys.filter((key) => !present.has(key))
}

/** As in `bisectBatch`, in the database, because each try there costs no round trip. */
const tryEachSql = (parts: string): string => `
do $fillrate$
declare
  tried text;
  fine text[] := '{}';
begin
  for tried in select jsonb_array_elements_text(current_setting('fillrate.keys')::jsonb) loop
    begin
      perform count(p) from (select tried as key offset 0) as k cross join lateral ${parts} as p;
      fine := fine || tried;
    exception when others then
      if sqlstate ~ '${NON_ROW_STATES}' then raise; end if;
    end;
  end loop;
  perform set_config('fillrate.fine', to_jsonb(fine)::text, true);
end $fillrate$`

/**
 * The key with more than one row, from the error that a page failed with; null for any other error.
 */
export function parseDuplicateKey(error: unknown): string | null {
  const { message = '' } = error instanceof Error ? error : {}
  return /more than one row for key (.*) in a page/s.exec(message)?.[1] ?? null
}

/** SQL for a condition that was given with `--where`. @throws SourceProblems if it is no expression, with a caret at the error */
export function renderWhere(source: Source, where: string): string {
  const fault = findFault(where, [])
  if (fault === null) return renderExpression(where).sql
  throw new SourceProblems([
    {
      source: source.name,
      place: '--where',
      found: `${withCaret(where, fault.at)}\n${fault.message}`,
      expected: 'an SQL condition over the source’s table, named t',
      todo: 'Correct the condition given with --where.',
    },
  ])
}
