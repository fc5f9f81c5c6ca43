import { createHash } from 'node:crypto'
import { keyEqualsSql, keyTextSql } from '../key.ts'
import { quoteLiteral, quoteName } from '../quote.ts'
import { WRITING_SETTING } from '../own-writes.ts'
import type { Source } from '../source-model.ts'
import { listFollowedColumns } from './columns.ts'

/** A statement that changes more rows than this is a bulk change (an import): its keys are not urgent. */
const BULK_KEYS = 100

/** Keys of updated rows that gather before they are written, in bytes: with 8,000 an update of inputs took twice as long. */
const GATHERED_BYTES = 1_000

/** Limit on the keys of one statement, in bytes. Postgres rows hold 1 GB; a larger list must fail before it is written. */
const MAX_KEYS_BYTES = 500_000_000

/** The queue of changes, and the spare one for while it is locked. */
export const CHANGE_TABLES = ['changed_rows', 'changed_rows_spare'] as const
const CHANGE_COLUMNS = '(source, keys, is_import)'
/** Takes the locks of an INSERT, and fails where an INSERT would. */
const NO_ROW = 'select null, null, null where false'

export interface TriggerDefinition {
  readonly name: string
  readonly sql: string
}

export interface TriggerSql {
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

/**
 * The SQL that records changes of a source's table: one function, and its triggers. For those that read the rows of a whole
 * statement, Postgres keeps these in temporary files, and `temp_file_limit` may make the user's statement fail: an update,
 * which may change no input, is recorded row by row. Its keys gather in a setting of the transaction, after the number of those
 * that are written already, until a trigger at the end of the statement writes the last ones.
 *
 * The condition of the trigger reads the whole row: on a column that it named, the user could not alter the type. The rows of
 * child tables fire no trigger of their parent's for each row: there updates are recorded as inserts and deletes are.
 */
export function triggerSql(source: Source): TriggerSql {
  const functionName = shortenName(`follow_${source.name}`, 63)
  const qualified = `fillrate.${quoteName(functionName)}`
  const body = functionBody(source)
  const settings = functionSettings(source)
  const rows = `(select * from ${source.table.sql} where false)`
  const trigger = (name: string, event: string, fires: string): TriggerDefinition => {
    const full = shortenName(`fillrate_follow_${source.name}`, 56) + `_${name}`
    return {
      name: full,
      sql: `create or replace trigger ${quoteName(full)} after ${event} on ${source.table.sql}
        ${fires} execute function ${qualified}()`,
    }
  }
  return {
    function: qualified,
    functionName,
    body,
    // SECURITY DEFINER: a role that may change the table then needs no privileges on this schema.
    create: `create or replace function ${qualified}() returns trigger language plpgsql
      security definer ${settings.map(([name, value]) => `set ${name} = ${value}`).join(' ')} as ${quoteLiteral(body)}`,
    settings: settings.map(([name, value]) => `${name}=${value.replaceAll("'", '')}`),
    probe: [
      `select ${changedKeysSql(source, { old: rows, new: rows })}`,
      ...CHANGE_TABLES.map((list) => `insert into fillrate.${list} ${CHANGE_COLUMNS} ${NO_ROW}`),
    ],
    triggers: [
      trigger('insert', 'insert', 'referencing new table as new_rows for each statement'),
      trigger('delete', 'delete', 'referencing old table as old_rows for each statement'),
      ...(source.table.hasChildTables
        ? [
            trigger(
              'update',
              'update',
              'referencing old table as old_rows new table as new_rows for each statement',
            ),
          ]
        : [
            trigger('row', 'update', 'for each row when (old operator(pg_catalog.*<>) new)'),
            trigger('update', 'update', 'for each statement'),
          ]),
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
 * - It keeps no row of an update that changes no input: what would hold them has a limit.
 * - It reads only the statement's own rows: at SERIALIZABLE, two transactions that read a table and insert into it fail
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
  const gathered = quoteLiteral(`fillrate.gathered_${shortHash(source.name)}`)
  const update = source.table.hasChildTables
    ? `select ${changedKeysSql(source, { old: 'old_rows', new: 'new_rows' }, 'into changed')};`
    : `
      pending := coalesce(current_setting(${gathered}, true), '');
      if tg_level = 'ROW' then
        if pending = '!' or not (${isChangedSql(source, 'old', 'new')}) then
          return null;
        end if;
        pending := case pending when '' then '0' else pending end || ',' || to_json(${keyTextSql(source, 'new')})::text;
        if octet_length(pending) < ${GATHERED_BYTES} then
          perform set_config(${gathered}, pending, true);
          return null;
        end if;
      elsif strpos(pending, ',') = 0 then
        perform set_config(${gathered}, '', true);
        return null;
      end if;
      written := split_part(pending, ',', 1)::int;
      changed := array(select json_array_elements_text(('[' || substr(pending, strpos(pending, ',') + 1) || ']')::json));`
  // In place of keys: they cannot be read, and the log says so once a statement. A nested statement of another kind keeps them.
  const forget = (value: string): string =>
    source.table.hasChildTables
      ? ''
      : `if tg_op = 'UPDATE' then perform set_config(${gathered}, ${value}, true); end if;`
  return `
declare
  pending text;
  written int := 0;
  changed text[];
  is_locked boolean := false;
begin
  if pg_trigger_depth() = 1 and current_setting('${WRITING_SETTING}', true) = ${name} then
    return null;
  end if;
  begin
    if tg_op = 'INSERT' then
      select array_agg(${keyTextSql(source, 'n')}) into changed from new_rows as n;
    elsif tg_op = 'DELETE' then
      select array_agg(${keyTextSql(source, 'o')}) into changed from old_rows as o;
    else ${update}
    end if;
    if changed is null then
      return null;
    end if;
    if pg_column_size(changed) > ${MAX_KEYS_BYTES} then
      raise 'one statement has changed % rows', cardinality(changed);
    end if;
    ${insert(main, NO_ROW)}
  exception
    when lock_not_available then
      is_locked := true;
    when others then
      ${log}
      ${forget(`case tg_level when 'ROW' then '!' else '' end`)}
      return null;
  end;
  ${forget(`case tg_level when 'ROW' then (written + cardinality(changed))::text else '' end`)}
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
  perform set_config('lock_timeout', '0', true);
  if is_locked then
    ${insert(spare, `values (${name}, changed, written + cardinality(changed) > ${BULK_KEYS})`)}
  else
    ${insert(main, `values (${name}, changed, written + cardinality(changed) > ${BULK_KEYS})`)}
  end if;
  return null;
end
`
}

/** SQL for the keys of updated rows whose inputs differ. */
function changedKeysSql(
  source: Source,
  tables: { readonly old: string; readonly new: string },
  into = '',
): string {
  const same = source.keyColumns.map((column) => keyEqualsSql(column, `o.${quoteName(column.name)}`, 'n'))
  return `array_agg(${keyTextSql(source, 'n')}) ${into}
      from ${tables.new} as n left join ${tables.old} as o on ${same.join(' and ')}
     where o.${quoteName(source.keyColumns[0]?.name ?? '')} is null or ${isChangedSql(source, 'o', 'n')}`
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
