import { createHash } from 'node:crypto'
import { keyEqualsSql, keyTextSql } from '../key.ts'
import { quoteLiteral, quoteName } from '../quote.ts'
import { WRITING_SETTING } from '../own-writes.ts'
import type { Source } from '../source-model.ts'
import { listFollowedColumns } from './columns.ts'

/** A statement that changes more rows than this is a bulk change (an import): its keys are not urgent. */
const BULK_KEYS = 100

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
 * The SQL that records changes of a source's table: one function and three triggers, each per statement. An update is
 * recorded only if an input really changed, by comparing the transition tables: Postgres gives these to no trigger that
 * names columns (`update of`).
 */
export function triggerSql(source: Source): TriggerSql {
  const functionName = shortenName(`follow_${source.name}`, 63)
  const qualified = `fillrate.${quoteName(functionName)}`
  const body = functionBody(source)
  const settings = functionSettings(source)
  const rows = `(select * from ${source.table.sql} where false)`
  const trigger = (event: 'insert' | 'update' | 'delete', tables: string): TriggerDefinition => {
    const name = shortenName(`fillrate_follow_${source.name}`, 56) + `_${event}`
    return {
      name,
      sql: `create or replace trigger ${quoteName(name)} after ${event} on ${source.table.sql}
        referencing ${tables} for each statement execute function ${qualified}()`,
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
      trigger('insert', 'new table as new_rows'),
      trigger('update', 'old table as old_rows new table as new_rows'),
      trigger('delete', 'old table as old_rows'),
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
  return `
declare
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
    else
      select ${changedKeysSql(source, { old: 'old_rows', new: 'new_rows' }, 'into changed')};
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
      return null;
  end;
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
    ${insert(spare, `values (${name}, changed, cardinality(changed) > ${BULK_KEYS})`)}
  else
    ${insert(main, `values (${name}, changed, cardinality(changed) > ${BULK_KEYS})`)}
  end if;
  return null;
end
`
}

/** SQL for the keys of updated rows whose inputs differ, byte by byte: their types need no equality. */
function changedKeysSql(
  source: Source,
  tables: { readonly old: string; readonly new: string },
  into = '',
): string {
  const columns = listFollowedColumns(source).map((column) => quoteName(column.name))
  const same = source.keyColumns.map((column) => keyEqualsSql(column, `o.${quoteName(column.name)}`, 'n'))
  // The cast makes it one value: a row constructor is compared column by column, with each type's own `=`.
  const record = (alias: string): string =>
    `row(${columns.map((column) => `${alias}.${column}`).join(', ')})::record`
  const differs = columns.length === 0 ? 'false' : `${record('o')} operator(pg_catalog.*<>) ${record('n')}`
  return `array_agg(${keyTextSql(source, 'n')}) ${into}
      from ${tables.new} as n left join ${tables.old} as o on ${same.join(' and ')}
     where o.${quoteName(source.keyColumns[0]?.name ?? '')} is null or ${differs}`
}

/** Postgres silently truncates longer names, and two could become the same. */
function shortenName(name: string, most: number): string {
  if (name.length <= most) return name
  const hash = createHash('md5').update(name).digest('hex').slice(0, 8)
  return `${name.slice(0, most - 9)}_${hash}`
}
