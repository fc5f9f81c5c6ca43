import { createHash } from 'node:crypto'
import { keyTextSql } from '../key.ts'
import { quoteLiteral, quoteName } from '../quote.ts'
import { WRITING_SETTING } from '../own-writes.ts'
import type { Source } from '../source-model.ts'
import { listFollowedColumns } from './columns.ts'

/** A statement that changes more rows than this is a bulk change (an import): its keys are not urgent. */
const BULK_KEYS = 100

/**
 * The sizes to which keys gather, in bytes: each row copies the first ones, which are few for that reason. Full, they go to the
 * second ones, and these into the queue.
 */
const FIRST_BYTES = 300
const SECOND_BYTES = 8_000

/** The queue of changes, and the spare one for while it is locked. */
export const CHANGE_TABLES = ['changed_rows', 'changed_rows_spare'] as const
const CHANGE_COLUMNS = '(source, keys, is_import, is_delete)'
/** Takes the locks of an INSERT, and fails where an INSERT would. */
const NO_ROW = 'select null, null, null, null where false'

export interface TriggerDefinition {
  readonly name: string
  /** Its table, quoted. */
  readonly table: string
  readonly sql: string
}

interface TriggerSql {
  /** The function's name, qualified and quoted; the bare name; and the text between its `$`. */
  readonly function: string
  readonly functionName: string
  readonly body: string
  readonly create: string
  /** The settings of the function, as in pg_proc. */
  readonly settings: readonly string[]
  /** Fails as the function would, whose errors appear in the server's log only. */
  readonly probe: readonly string[]
  readonly triggers: readonly TriggerDefinition[]
}

/** The function of a source's triggers, in the schema `fillrate`. */
export const toFunctionName = (source: string): string => shortenName(`follow_${source}`, 63)

/**
 * The SQL that records changes of a source's table: one function, and its triggers, which fire for each row. For one that reads the
 * rows of a whole statement, Postgres keeps these in temporary files, and `temp_file_limit` may make the user's statement
 * fail. The keys gather in two settings of the transaction, until a trigger at the end of the statement writes the last ones.
 *
 * A row trigger of a partitioned table fires for each partition, also where the statement names the partition and no trigger fires at
 * its end: keys gather only while a trigger before the statement has said so, and are written one by one otherwise. Tables that
 * inherit get row triggers of their own.
 *
 * The condition of the trigger reads the whole row: on a column that it named, the user could not alter the type.
 */
export function triggerSql(source: Source): TriggerSql {
  const functionName = toFunctionName(source.name)
  const qualified = `fillrate.${quoteName(functionName)}`
  const body = functionBody(source)
  const settings = functionSettings(source)
  const rows = `(select * from ${source.table.sql} where false)`
  const prefix = shortenName(`fillrate_follow_${source.name}`, 52)
  const trigger = (
    name: string,
    event: string,
    fires: string,
    table = source.table.sql,
  ): TriggerDefinition => ({
    name: `${prefix}_${name}`,
    table,
    sql: `create or replace trigger ${quoteName(`${prefix}_${name}`)} ${event} on ${table} ${fires}
      execute function ${qualified}()`,
  })
  const isOther = 'for each row when (old operator(pg_catalog.*<>) new)'
  const anyChange = 'insert or update or delete'
  return {
    function: qualified,
    functionName,
    body,
    // SECURITY DEFINER: a role that may change the table then needs no privileges on this schema.
    create: `create or replace function ${qualified}() returns trigger language plpgsql
      security definer ${settings.map(([name, value]) => `set ${name} = ${value}`).join(' ')} as ${quoteLiteral(body)}`,
    settings: settings.map(([name, value]) => `${name}=${value.replaceAll("'", '')}`),
    probe: [
      `select ${keyTextSql(source, 'n')}, ${isChangedSql(source, 'o', 'n')} from ${rows} as o, ${rows} as n`,
      ...CHANGE_TABLES.map((list) => `insert into fillrate.${list} ${CHANGE_COLUMNS} ${NO_ROW}`),
    ],
    triggers: [
      ...[source.table.sql, ...source.table.inheritors].flatMap((where) => [
        trigger('row', 'after insert or delete', 'for each row', where),
        trigger('update_row', 'after update', isOther, where),
      ]),
      trigger('statement', `after ${anyChange}`, 'for each statement'),
      ...(source.table.hasChildTables
        ? [trigger('before', `before ${anyChange}`, 'for each statement')]
        : []),
    ],
  }
}

/**
 * The lock timeout is a millisecond, the shortest that Postgres has: the function never waits for a lock. The others give
 * a key the same text in every session, whatever its user has set.
 */
function functionSettings(source: Source): readonly (readonly [string, string])[] {
  const types = source.keyColumns.map((column) => column.columnType.cast)
  return [
    ['search_path', 'pg_catalog, pg_temp'],
    ['lock_timeout', "'1ms'"],
    ...(types.some((type) => type.startsWith('bytea')) ? [['bytea_output', "'hex'"] as const] : []),
    ...(types.some((type) => type.startsWith('interval')) ? [['IntervalStyle', "'postgres'"] as const] : []),
    ...(types.some((type) => /^(?:real|double)/.test(type)) ? [['extra_float_digits', "'1'"] as const] : []),
  ]
}

/**
 * The function must not let any user's statement or commit fail or wait:
 *
 * - What can fail is in a block with a handler, and writes nothing: such a block is a subtransaction, and one that has
 *   written takes one of 64 slots, beyond which every snapshot of the server is slower. An INSERT of no row there takes
 *   the locks and checks the table; the row itself is written after the block.
 * - It keeps no rows, only keys, and few of them: what would hold them has a limit.
 * - It reads only the row that it fires for: at SERIALIZABLE, two transactions that read a table and insert into it fail
 *   at commit, where there is no handler.
 * - No NOTIFY: commits that notify wait for each other, and such a transaction cannot be prepared (XA). The table is
 *   polled instead.
 * - A write of the source itself is not recorded: it changes none of its inputs (`own-writes.ts`). What a user's trigger
 *   does beside it is, and so is what the write changes for other sources.
 * - If the table is locked, the keys go to the spare one. If that is locked too, or anything is missing, the change is
 *   not recorded, and the server's log says so; the next run of the source finds the row.
 */
function functionBody(source: Source): string {
  const name = quoteLiteral(source.name)
  const [main, spare] = CHANGE_TABLES
  const insert = (list: string, values: string): string =>
    `insert into fillrate.${list} ${CHANGE_COLUMNS} ${values};`
  const log = `raise log 'fillrate: a change of source % was not recorded: %', ${name}, sqlerrm;`
  const { first, second, set, gathers } = gatheredKeys(source)
  return `
declare
  pending text;
  batch text;
  key text;
  changed text[];
  is_import boolean;
  is_locked boolean := false;
  ignored text;
begin
  if current_setting('${WRITING_SETTING}', true) = ${name} and pg_trigger_depth() = 1 then
    return null;
  end if;
  begin
    ${gatherSql(source)}
    changed := case when batch is null then array[key] else ('{' || ltrim(batch, '+,') || '}')::text[] end;
    is_import := cardinality(changed) > ${BULK_KEYS} or starts_with(batch, '+');
    ${insert(main, NO_ROW)}
  exception
    when lock_not_available then
      is_locked := true;
    when others then
      ${log}
      ${set(first, `case when tg_level = 'ROW' and ${gathers} then '!' else '' end`)}
      ${set(second, `''`)}
      return null;
  end;
  if batch is not null then
    ${set(first, `case tg_level when 'ROW' then ';' else '' end`)}
    ${set(second, `case tg_level when 'ROW' then '+' else '' end`)}
  end if;
  if is_locked then
    begin
      if changed is null then
        raise 'its rows can not be read';
      end if;
      ${insert(spare, NO_ROW)}
    exception when others then
      ${log}
      return null;
    end;
  end if;
  -- The locks are held. From here on it waits at most for another session that extends the table by a page.
  ${set(`'lock_timeout'`, `'0'`)}
  if is_locked then
    ${insert(spare, `values (${name}, changed, coalesce(is_import, false), tg_op = 'DELETE')`)}
  else
    ${insert(main, `values (${name}, changed, coalesce(is_import, false), tg_op = 'DELETE')`)}
  end if;
  return null;
end
`
}

/** The two settings in which keys gather, what sets one, and the condition under which they gather. */
function gatheredKeys({ name, table }: Source) {
  const hash = shortHash(name)
  return {
    first: quoteLiteral(`fillrate.first_${hash}`),
    second: quoteLiteral(`fillrate.second_${hash}`),
    // An assignment, because PERFORM is slow.
    set: (setting: string, value: string): string => `ignored := set_config(${setting}, ${value}, true);`,
    gathers: table.hasChildTables ? `pending <> ''` : 'true',
  }
}

/** Adds the row's key to those that gather, or takes what the trigger is to record: `batch`, or the one `key`. */
function gatherSql(source: Source): string {
  const { first, second, set, gathers } = gatheredKeys(source)
  return `-- The first keys, after ';' while a trigger at the end of the statement is to come, or '!': keys cannot be read, and the log has said so.
    pending := current_setting(${first}, true);
    if tg_level = 'ROW' then
      if tg_op = 'INSERT' then
        key := ${keyTextSql(source, 'new')};
      elsif tg_op = 'DELETE' then
        key := ${keyTextSql(source, 'old')};
      elsif ${isChangedSql(source, 'old', 'new')} then
        key := ${keyTextSql(source, 'new')};
      end if;
      if key is null or pending = '!' then
        return null;
      elsif ${gathers} then
        pending := concat(pending, ',"', replace(replace(key, E'\\\\', E'\\\\\\\\'), '"', E'\\\\"'), '"');
        if octet_length(pending) < ${FIRST_BYTES} then
          ${set(first, 'pending')}
          return null;
        end if;
        batch := concat(current_setting(${second}, true), ltrim(pending, ';'));
        if octet_length(batch) < ${SECOND_BYTES} then
          ${set(first, `';'`)}
          ${set(second, 'batch')}
          return null;
        end if;
      end if;
    elsif tg_when = 'BEFORE' then
      ${set(first, `case when pending <> '' then pending else ';' end`)}
      return null;
    else
      -- The second keys, after '+' if some of the statement's are written.
      batch := concat(current_setting(${second}, true), ltrim(pending, ';'));
      if strpos(batch, ',') = 0 then
        ${set(first, `''`)}
        ${set(second, `''`)}
        return null;
      end if;
    end if;`
}

/** SQL: whether the key or an input differs, byte by byte: their types need no equality. */
function isChangedSql(source: Source, before: string, after: string): string {
  const columns = [...source.keyColumns, ...listFollowedColumns(source)].map((column) =>
    quoteName(column.name),
  )
  // The cast makes it one value: a row constructor is compared column by column, with each type's own `=`.
  const record = (alias: string): string =>
    `row(${columns.map((column) => `${alias}.${column}`).join(', ')})::record`
  return `${record(before)} operator(pg_catalog.*<>) ${record(after)}`
}

/** Postgres silently truncates longer names, and two could become the same. */
function shortenName(name: string, most: number): string {
  if (name.length <= most) return name
  return `${name.slice(0, most - 9)}_${shortHash(name)}`
}

const shortHash = (text: string): string => createHash('md5').update(text).digest('hex').slice(0, 8)
