import { maskServerText, type DatabaseError } from '../../util/error-text.ts'
import { type Db, query, queryValue } from '../db.ts'
import { SourceProblems } from '../problems.ts'
import { quoteName } from '../quote.ts'
import type { Source } from '../source-model.ts'
import { CHANGE_TABLES, toFunctionName, type TriggerDefinition, triggerSql } from './sql.ts'

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
    const isKept = (one: FoundTrigger): boolean => triggers.some((trigger) => isSame(trigger, one))
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
  const elsewhere = there.find((one) => !triggers.some(({ table }) => table === tableOf(one)))
  if (elsewhere)
    return {
      state: 'wrong',
      why: `its triggers are on ${elsewhere.schema}.${elsewhere.table}, another table`,
    }
  const missing = triggers.find((trigger) => !there.some((one) => isSame(trigger, one)))
  if (missing) return { state: 'wrong', why: `the trigger ${missing.name} is missing on ${missing.table}` }
  const off = there.find((one) => !['O', 'A'].includes(one.enabled))
  if (off) return { state: 'wrong', why: `the trigger ${off.name} is disabled` }
  const isAsMade = (one: FoundTrigger): boolean =>
    one.body === body && one.definer && one.settings.join() === settings.join()
  if (!there.every(isAsMade))
    return { state: 'wrong', why: 'its triggers were made from another mapping, or by another version' }
  const mute = there.find((one) => !one.records)
  if (mute)
    return {
      state: 'wrong',
      why: `${mute.owner}, which installed them, may not INSERT into ${CHANGE_TABLES.map((list) => `fillrate.${list}`).join(' and ')}`,
    }
  return { state: 'right' }
}

/** Changes whenever the triggers of any source are created, replaced, moved with their table, disabled or dropped. */
export async function readTriggerMark(db: Db): Promise<string> {
  const mark = await queryValue<string>(
    db,
    `select md5(string_agg(concat_ws(' ', t.oid, t.tgenabled, c.relnamespace, c.relname, p.proname, p.xmin), ',' order by t.oid))
       from pg_trigger t join pg_proc p on p.oid = t.tgfoid join pg_class c on c.oid = t.tgrelid
      where p.pronamespace = to_regnamespace('fillrate') and not t.tgisinternal`,
  )
  return mark ?? ''
}

const tableOf = ({ schema, table }: FoundTrigger): string => `${quoteName(schema)}.${quoteName(table)}`

const isSame = ({ name, table }: TriggerDefinition, found: FoundTrigger): boolean =>
  found.name === name && tableOf(found) === table

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
          `a role that has the privilege TRIGGER on ${[source.mapping.table, ...source.table.inheritors].join(', ')} and CREATE on the schema fillrate, ` +
          `that may INSERT into ${CHANGE_TABLES.map((list) => `fillrate.${list}`).join(' and ')}, and that owns the function if there is one`,
        todo:
          `Run this as such a role, or grant what is missing: \`grant trigger on ${[source.table.sql, ...source.table.inheritors].join(', ')} to ${role}; grant create on schema fillrate to ${role};\`.` +
          again,
      },
    ])
  }
}
