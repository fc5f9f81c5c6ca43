import { createHash } from 'node:crypto'
import { keyText } from '../key.ts'
import { quoteLiteral, quoteName } from '../quote.ts'
import type { Source } from '../mapped.ts'
import { followedColumns } from './columns.ts'

/** A statement that changes more rows than this is an import: its keys are kept in one row, and are not urgent. */
const MANY = 100

export const CHANNEL = 'fillrate'

export interface FollowTrigger {
  readonly name: string
  readonly sql: string
}

export interface FollowSql {
  /** Of the function, qualified and quoted; its name alone; and what stands between its `$`. */
  readonly function: string
  readonly functionName: string
  readonly body: string
  readonly create: string
  /** Fails as the function would: it tells nobody but the server's log. */
  readonly probe: string
  readonly triggers: readonly FollowTrigger[]
}

/**
 * What is put on a source's table so that its changes are recorded: one function and two triggers, each once a
 * statement. An update is recorded where an input really changed, by comparing the rows before and after: Postgres
 * gives these tables to no trigger that names columns (`update of`).
 */
export function followSql(source: Source): FollowSql {
  const functionName = short(`follow_${source.name}`, 63)
  const qualified = `fillrate.${quoteName(functionName)}`
  const body = functionBody(source)
  const rows = `(select * from ${source.table.sql} where false)`
  const trigger = (event: 'insert' | 'update', tables: string): FollowTrigger => {
    const name = short(`fillrate_follow_${source.name}`, 56) + `_${event}`
    return {
      name,
      sql: `create trigger ${quoteName(name)} after ${event} on ${source.table.sql}
        referencing ${tables} for each statement execute function ${qualified}()`,
    }
  }
  return {
    function: qualified,
    functionName,
    body,
    // It runs with the rights of whoever installed it: who may change the table needs none on this schema. Where the
    // list itself is locked, by an upgrade say, nobody waits for it longer than a second.
    create: `create or replace function ${qualified}() returns trigger language plpgsql
      security definer set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as ${quoteLiteral(body)}`,
    probe: `select ${changedKeys(source, { old: rows, new: rows })}`,
    triggers: [
      trigger('insert', 'new table as new_rows'),
      trigger('update', 'old table as old_rows new table as new_rows'),
    ],
  }
}

/**
 * Whatever goes wrong in it goes to the server's log and not to the user, whose statement must not fail for our sake;
 * the next run of the schedule finds the rows. It wakes the daemon only when nothing was waiting for it before, because
 * commits that notify wait for each other.
 */
function functionBody(source: Source): string {
  const name = quoteLiteral(source.name)
  return `
declare
  changed text[];
begin
  if tg_op = 'INSERT' then
    select array_agg(${keyText(source, 'n')}) into changed from new_rows as n;
  else
    select ${changedKeys(source, { old: 'old_rows', new: 'new_rows' }, 'into changed')};
  end if;
  if changed is null then
    return null;
  end if;
  if not exists (select from fillrate.followed) then
    perform pg_notify(${quoteLiteral(CHANNEL)}, 'changed');
  end if;
  if cardinality(changed) > ${MANY} then
    insert into fillrate.followed (source, keys) values (${name}, changed);
  else
    insert into fillrate.followed (source, key)
    select distinct ${name}, k from unnest(changed) as k where k is not null
    on conflict (source, key) where key is not null do update set id = excluded.id, changed_at = now();
  end if;
  return null;
exception when others then
  raise log 'fillrate: a change of source % was not recorded: %', ${name}, sqlerrm;
  return null;
end
`
}

/** The keys of updated rows whose inputs differ, byte by byte: a type need not know how to compare. */
function changedKeys(
  source: Source,
  tables: { readonly old: string; readonly new: string },
  into = '',
): string {
  const columns = followedColumns(source).map((column) => quoteName(column.name))
  const keys = source.keyColumns.map((column) => quoteName(column.name))
  // The cast makes one value of it: a row that is written out is compared column by column, by the types' own `=`.
  const record = (alias: string): string =>
    `row(${columns.map((column) => `${alias}.${column}`).join(', ')})::record`
  const differs = columns.length === 0 ? 'false' : `${record('o')} operator(pg_catalog.*<>) ${record('n')}`
  return `array_agg(${keyText(source, 'n')}) ${into}
      from ${tables.new} as n left join ${tables.old} as o on ${keys.map((one) => `o.${one} = n.${one}`).join(' and ')}
     where o.${keys[0]} is null or ${differs}`
}

/** Postgres cuts a longer name without a word, and two would be one. */
function short(name: string, most: number): string {
  if (name.length <= most) return name
  const hash = createHash('md5').update(name).digest('hex').slice(0, 8)
  return `${name.slice(0, most - 9)}_${hash}`
}
