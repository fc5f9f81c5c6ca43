import { maskServerText, type DatabaseError } from '../../util/error-text.ts'
import { query, queryValue, quoteName, quoteLiteral, type Db } from '../db.ts'
import { SourceProblems } from '../problems.ts'
import type { Source } from '../source-model.ts'
import { createHash } from 'node:crypto'
import { keyTextSql } from '../key.ts'
import { WRITING_SETTING } from '../own-writes.ts'
import { listFollowedColumns } from './columns.ts'

/** The state of a source's triggers. `why` says in words what is wrong. */
type TriggerState =
  | { readonly state: 'right' }
  | { readonly state: 'missing' }
  | { readonly state: 'wrong'; readonly why: string }

/**
 * Installs the triggers on a source's table, replacing existing ones. Takes a lock on the table that waits for writers
 * and blocks others meanwhile: `tx` should bound it with `lock_timeout`. The privilege TRIGGER is enough, also for a
 * replacement: `create or replace trigger` needs no more, while `drop trigger` needs the owner of the table.
 * @throws SourceProblems if this role lacks a privilege
 */
export async function installTriggers(tx: Db, source: Source): Promise<void> {
  const { create, function: name, functionName, triggers, probe } = triggerSql(source)
  await withPrivilegeHelp(tx, source, async () => {
    const there = await findTriggers(tx, functionName)
    const isKept = (found: FoundTrigger): boolean =>
      isOnTable(source, found) && triggers.some(({ name }) => name === found.name)
    if (!there.every(isKept)) await dropFunction(tx, name)
    await query(tx, create)
    for (const { role } of await listExecutors(tx, functionName))
      await query(tx, `revoke all on function ${name}() from ${role}`)
    for (const trigger of triggers) await query(tx, trigger.sql)
    await query(tx, 'set local search_path = pg_catalog, pg_temp')
    for (const statement of probe) await query(tx, statement)
  })
}

/** Removes the triggers, wherever they are, and the changes that they recorded. @returns whether there were any */
export const removeTriggers = (tx: Db, source: Source): Promise<boolean> =>
  withPrivilegeHelp(tx, source, () => removeTriggersOf(tx, source.name))

/** The same of a source by its name, also of one that is not in the configuration. */
export async function removeTriggersOf(tx: Db, source: string): Promise<boolean> {
  const wereThere = await dropTriggersOf(tx, source)
  for (const list of CHANGE_TABLES)
    await query(tx, `delete from fillrate.${list} where source = $1`, [source])
  return wereThere
}

/** Drops the triggers of a source by its name, wherever they are. @returns whether there were any */
export async function dropTriggersOf(tx: Db, source: string): Promise<boolean> {
  const tables = await findFollowedTables(tx, source)
  await dropFunction(tx, `fillrate.${quoteName(toFunctionName(source))}`)
  return tables.length > 0
}

/** The tables that have triggers of a source, also of one that is not in the configuration. */
export async function findFollowedTables(db: Db, source: string): Promise<string[]> {
  const there = await findTriggers(db, toFunctionName(source))
  return [...new Set(there.map(({ schema, table }) => `${schema}.${table}`))]
}

/** Drops the function with its triggers: dropping a trigger by name needs the table's owner, this the function's owner. */
const dropFunction = (tx: Db, name: string): Promise<unknown> =>
  query(tx, `drop function if exists ${name}() cascade`)

/** Checks that a source's triggers exist, on the right table, enabled, safe, and made from the current mapping. */
export async function readTriggerState(db: Db, source: Source): Promise<TriggerState> {
  const { functionName, body, settings, triggers } = triggerSql(source)
  const there = await findTriggers(db, functionName)
  if (there.length === 0) return { state: 'missing' }
  const executor = (await listExecutors(db, functionName))[0]
  if (executor !== undefined)
    return {
      state: 'wrong',
      why: `${executor.role} may execute their function, and so gain the privileges of the role that installed it`,
    }
  const elsewhere = there.find((found) => !isOnTable(source, found))
  if (elsewhere)
    return {
      state: 'wrong',
      why: `its triggers are on ${elsewhere.schema}.${elsewhere.table}, another table`,
    }
  const missing = triggers.find((trigger) => !there.some(({ name }) => name === trigger.name))
  if (missing) return { state: 'wrong', why: `the trigger ${missing.name} is missing` }
  const off = there.find(({ enabled }) => !['O', 'A'].includes(enabled))
  if (off) return { state: 'wrong', why: `the trigger ${off.name} is disabled` }
  const isAsMade = (found: FoundTrigger): boolean =>
    found.body === body && found.definer && found.settings.join() === settings.join()
  if (!there.every(isAsMade))
    return { state: 'wrong', why: 'its triggers were made from another mapping, or by another version' }
  const mute = there.find(({ records }) => !records)
  if (mute)
    return {
      state: 'wrong',
      why: `${mute.owner}, which installed them, may not INSERT into ${CHANGE_TABLES.map((list) => `fillrate.${list}`).join(' and ')}`,
    }
  return { state: 'right' }
}

const isOnTable = (source: Source, { schema, table }: FoundTrigger): boolean =>
  `${quoteName(schema)}.${quoteName(table)}` === source.table.sql

interface FoundTrigger {
  readonly schema: string
  readonly table: string
  readonly name: string
  readonly enabled: string
  readonly body: string
  /** SECURITY DEFINER: it runs with its owner's privileges. */
  readonly definer: boolean
  readonly settings: readonly string[]
  readonly owner: string
  /** Its owner may insert into the change tables. */
  readonly records: boolean
}

const findTriggers = (db: Db, functionName: string): Promise<readonly FoundTrigger[]> =>
  query(
    db,
    `select n.nspname as schema, c.relname as "table", t.tgname as name, t.tgenabled::text as enabled, p.prosrc as body,
            p.prosecdef as definer, coalesce(p.proconfig, '{}') as settings,
            pg_get_userbyid(p.proowner) as owner,
            coalesce(has_schema_privilege(p.proowner, f.oid, 'usage') and (
              select bool_and(coalesce(has_table_privilege(p.proowner, to_regclass('fillrate.' || list), 'insert'), false))
                from unnest($2::text[]) as list), false) as records
       from pg_trigger t
       join pg_proc p on p.oid = t.tgfoid join pg_namespace f on f.oid = p.pronamespace
       join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
      where f.nspname = 'fillrate' and p.proname = $1 and not t.tgisinternal and t.tgparentid = 0`,
    [functionName, [...CHANGE_TABLES]],
  )

/** A function of the schema fillrate, and a role that may execute it, both as SQL names. */
interface Executor {
  readonly name: string
  readonly role: string
}

/**
 * Roles that may execute a SECURITY DEFINER function of this name: by default PUBLIC may, until it is revoked. Such a role could put a
 * trigger's function on a temporary table with a type of its own, whose cast then runs with the privileges of the
 * function's owner. An installed trigger fires without the privilege.
 */
async function listExecutors(db: Db, functionName: string): Promise<readonly Executor[]> {
  return query<Executor>(
    db,
    `select distinct p.oid::regprocedure::text as name,
            case when a.grantee = 0 then 'PUBLIC' else quote_ident(pg_get_userbyid(a.grantee)) end as role
       from pg_proc p join pg_namespace f on f.oid = p.pronamespace,
            lateral aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
      where f.nspname = 'fillrate' and p.prosecdef and p.proname = $1
        and a.grantee <> p.proowner
      order by 1, 2`,
    [functionName],
  )
}

async function withPrivilegeHelp<Result>(
  tx: Db,
  source: Source,
  act: () => Promise<Result>,
): Promise<Result> {
  const { functionName } = triggerSql(source)
  const role = await queryValue<string>(tx, 'select quote_ident(current_user)')
  const owner = await queryValue<string>(
    tx,
    `select pg_get_userbyid(p.proowner) from pg_proc p join pg_namespace f on f.oid = p.pronamespace
      where f.nspname = 'fillrate' and p.proname = $1`,
    [functionName],
  )
  try {
    return await act()
  } catch (error) {
    if (!(error instanceof Error) || (error as { code?: string }).code !== '42501') throw error
    const again =
      owner === null
        ? ''
        : ` They were installed by ${owner}: only this role, or a member of it, may replace or remove them.`
    throw new SourceProblems([
      {
        source: source.name,
        place: 'follow',
        found: maskServerText(error as Error & DatabaseError),
        expected:
          `a role that has the privilege TRIGGER on ${source.mapping.table} and CREATE on the schema fillrate, ` +
          `that may INSERT into ${CHANGE_TABLES.map((list) => `fillrate.${list}`).join(' and ')}, and that owns the function if there is one`,
        todo:
          `Run this as such a role, or grant what is missing: \`grant trigger on ${source.table.sql} to ${role}; grant create on schema fillrate to ${role};\`.` +
          again,
      },
    ])
  }
}

/** A statement that changes more rows than this is a bulk change (an import): its keys are not urgent. */
const BULK_KEYS = 100

/**
 * The sizes to which keys gather, in bytes: each row copies the first ones, which are few for that reason. Full, they go to the
 * second ones, and these into the queue.
 */
const FIRST_BYTES = 300
const SECOND_BYTES = 8_000

/** The queue of changes, and the spare one for while it is locked. */
const CHANGE_TABLES = ['changed_rows', 'changed_rows_spare'] as const
const CHANGE_COLUMNS = '(source, keys, is_import, is_delete)'
/** Takes the locks of an INSERT, and fails where an INSERT would. */
const NO_ROW = 'select null, null, null, null where false'

interface TriggerDefinition {
  readonly name: string
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
const toFunctionName = (source: string): string => shortenName(`follow_${source}`, 63)

/**
 * The SQL that records changes of a source's table: one function, and triggers that fire for each row. For a
 * trigger that reads the rows of a statement, Postgres keeps temporary files, and `temp_file_limit` may make the
 * user's statement fail. Keys gather in two settings of the transaction until a trigger at the end of the
 * statement.
 *
 * A row trigger of a partitioned table also fires where the statement names the partition and no trigger fires at
 * its end: keys gather only after a trigger before the statement, and are written one by one otherwise. The condition
 * reads the whole row, because the user could not alter the type of a column that it named.
 */
function triggerSql(source: Source): TriggerSql {
  const functionName = toFunctionName(source.name)
  const qualified = `fillrate.${quoteName(functionName)}`
  const body = functionBody(source)
  const settings = functionSettings(source)
  const rows = `(select * from ${source.table.sql} where false)`
  const prefix = shortenName(`fillrate_follow_${source.name}`, 52)
  const trigger = (name: string, event: string, fires: string): TriggerDefinition => ({
    name: `${prefix}_${name}`,
    sql: `create or replace trigger ${quoteName(`${prefix}_${name}`)} ${event} on ${source.table.sql} ${fires}
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
      trigger('row', 'after insert or delete', 'for each row'),
      trigger('update_row', 'after update', isOther),
      trigger('statement', `after ${anyChange}`, 'for each statement'),
      ...(source.table.isPartitioned ? [trigger('before', `before ${anyChange}`, 'for each statement')] : []),
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
 * - What can fail is in a block with a handler, which writes nothing: such a block is a subtransaction, and one
 *   that writes takes one of 64 slots, beyond which every snapshot of the server is slower. An INSERT of no row
 *   takes the locks and checks the table; the row is written after the block.
 * - It keeps few keys and no rows, because the place that holds them has a limit.
 * - It reads only its own row: at SERIALIZABLE, two transactions that read a table and insert into it fail at
 *   commit, where there is no handler.
 * - No NOTIFY, so the table is polled: commits that notify wait for each other, and cannot be prepared (XA).
 * - A write of the source itself is not recorded, because it changes no input (`own-writes.ts`). What a user's
 *   trigger does beside it, or the write for another source, is.
 * - If the table is locked, the keys go to the spare one. If that fails too, the server's log says so, and the next
 *   run of the source finds the row.
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
    gathers: table.isPartitioned ? `pending <> ''` : 'true',
  }
}

/** Adds the row's key to the gathered keys, or takes what the trigger is to record: `batch`, or the one `key`. */
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
