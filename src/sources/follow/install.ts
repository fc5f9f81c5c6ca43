import { query, type Db } from '../db.ts'
import { SourceProblems } from '../problems.ts'
import { quoteName } from '../quote.ts'
import type { Source } from '../mapped.ts'
import { followSql } from './triggers.ts'

/** What is there of a source's triggers. `wrong` says in words what is not as it should be. */
export type FollowState =
  | { readonly state: 'right' }
  | { readonly state: 'missing' }
  | { readonly state: 'wrong'; readonly why: string }

/**
 * Puts the triggers on a source's table, in the place of any that are there. Takes a lock on the table that waits for
 * writers and keeps others waiting meanwhile: `tx` should bound it with `lock_timeout`.
 * @throws SourceProblems where this role may not
 */
export async function installFollow(tx: Db, source: Source): Promise<void> {
  const { create, triggers, probe } = followSql(source)
  await allowed(source, async () => {
    await query(tx, create)
    await dropTriggers(tx, source)
    for (const trigger of triggers) await query(tx, trigger.sql)
    await query(tx, 'set local search_path = pg_catalog, pg_temp')
    await query(tx, probe)
  })
}

/** Takes them off, wherever they are, with what they have recorded. @returns whether there were any */
export async function removeFollow(tx: Db, source: Source): Promise<boolean> {
  return allowed(source, async () => {
    const dropped = await dropTriggers(tx, source)
    await query(tx, `drop function if exists ${followSql(source).function}()`)
    await query(tx, 'delete from fillrate.followed where source = $1', [source.name])
    return dropped > 0
  })
}

/** Whether a source's triggers are there, on the right table, switched on, and made from the mapping as it is now. */
export async function followState(db: Db, source: Source): Promise<FollowState> {
  const { functionName, body, triggers } = followSql(source)
  const there = await triggersOf(db, functionName)
  if (there.length === 0) return { state: 'missing' }
  const onTable = there.filter((one) => one.schema === source.table.schema && one.table === source.table.name)
  const elsewhere = there.find((one) => !onTable.includes(one))
  if (elsewhere)
    return { state: 'wrong', why: `they are on ${elsewhere.schema}.${elsewhere.table}, another table` }
  const missing = triggers.find((trigger) => !onTable.some((one) => one.name === trigger.name))
  if (missing) return { state: 'wrong', why: `the trigger ${missing.name} is not there` }
  const off = onTable.find((one) => !['O', 'A'].includes(one.enabled))
  if (off) return { state: 'wrong', why: `the trigger ${off.name} is switched off` }
  if (onTable.some((one) => one.body !== body))
    return { state: 'wrong', why: 'they were made from another mapping, or by another version' }
  return { state: 'right' }
}

interface FoundTrigger {
  readonly schema: string
  readonly table: string
  readonly name: string
  readonly enabled: string
  readonly body: string
}

const triggersOf = (db: Db, functionName: string): Promise<readonly FoundTrigger[]> =>
  query(
    db,
    `select n.nspname as schema, c.relname as "table", t.tgname as name, t.tgenabled::text as enabled, p.prosrc as body
       from pg_trigger t
       join pg_proc p on p.oid = t.tgfoid join pg_namespace f on f.oid = p.pronamespace
       join pg_class c on c.oid = t.tgrelid join pg_namespace n on n.oid = c.relnamespace
      where f.nspname = 'fillrate' and p.proname = $1 and not t.tgisinternal`,
    [functionName],
  )

async function dropTriggers(tx: Db, source: Source): Promise<number> {
  const there = await triggersOf(tx, followSql(source).functionName)
  for (const { schema, table, name } of there)
    await query(tx, `drop trigger ${quoteName(name)} on ${quoteName(schema)}.${quoteName(table)}`)
  return there.length
}

async function allowed<Result>(source: Source, act: () => Promise<Result>): Promise<Result> {
  try {
    return await act()
  } catch (error) {
    if (!(error instanceof Error) || (error as { code?: string }).code !== '42501') throw error
    throw new SourceProblems([
      {
        source: source.name,
        place: 'follow',
        found: error.message,
        expected: `a role that may put triggers on ${source.mapping.table} and functions into the schema fillrate`,
        todo:
          `Run this as the owner of the table, or \`grant trigger on ${source.table.sql}\` to the role of DATABASE_URL. ` +
          'Without triggers, a source with `changedAt` is polled.',
      },
    ])
  }
}
