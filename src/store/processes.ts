import { sql } from 'kysely'
import type { Database, Schema } from './open.ts'
import { fromNow, NOW } from './sql.ts'
import { ALIVE_FOR, isHeldSql } from './terms.ts'
import { whileSupported, type Connection } from './transaction.ts'

/** The command that a process runs. */
export type ProcessRole = Schema['fillrate.processes']['role']

/** A process, with the configuration that it has loaded. */
export interface FillrateProcess {
  /** Identifies it in leases; unique for each start. */
  readonly owner: string
  readonly role: ProcessRole
  readonly host: string
  readonly pid: number
  readonly version: string
  readonly nodeVersion: string
  /** The configuration in force, without secrets. */
  readonly config: unknown
  /** The file of the configuration; null: it came from code. */
  readonly configPath: string | null
  readonly startedAt: Date
}

export interface ListedProcess extends FillrateProcess {
  readonly seenAt: Date
  /** It has reported within the last half minute. */
  readonly isAlive: boolean
  /** Leases that it holds now: a scope for a leader, or a task such as live sync. */
  readonly leases: readonly string[]
}

/** How long a killed process stays listed. */
const LISTED_MS = 3_600_000

/**
 * Registers a process, and deletes processes that were killed long ago.
 * @throws UnusableSchemaError
 */
export async function registerProcess(db: Database, registered: FillrateProcess): Promise<void> {
  const { nodeVersion, config, configPath, startedAt, ...stored } = registered
  const renamed = { node_version: nodeVersion, config_path: configPath, started_at: startedAt }
  await whileSupported(db, (tx) =>
    tx
      .with('gone', (gone) =>
        gone.deleteFrom('fillrate.processes').where('seen_at', '<', fromNow(-LISTED_MS)),
      )
      .insertInto('fillrate.processes')
      .values({ ...stored, config: JSON.stringify(config), ...renamed })
      .onConflict((on) => on.column('owner').doUpdateSet({ role: registered.role, seen_at: NOW }))
      .execute(),
  )
}

/** Reports that a process is alive. @returns false if it is not registered */
export async function touchProcess(db: Database, owner: string): Promise<boolean> {
  const touched = await updateProcess(db, owner).set({ seen_at: NOW }).executeTakeFirst()
  return touched.numUpdatedRows === 1n
}

/**
 * Reports that Postgres refuses statements, by which SQLSTATE; null: it does not any more. Replaces a row in its page, so that a full disk
 * does not forbid it.
 */
export async function reportRefusal(db: Database, owner: string, refused: string | null): Promise<void> {
  await updateProcess(db, owner)
    .set({ refused, refused_at: refused === null ? null : NOW })
    .execute()
}

const updateProcess = (db: Database, owner: string) =>
  db.updateTable('fillrate.processes').where('owner', '=', owner)

export async function deleteProcess(db: Database, owner: string): Promise<void> {
  await db.deleteFrom('fillrate.processes').where('owner', '=', owner).execute()
}

/** Deletes the processes that are not alive. */
export async function deleteSilent(db: Connection): Promise<void> {
  await sql`delete from fillrate.processes where seen_at <= now() - ${ALIVE_FOR}`.execute(db)
}

/** All processes, the longest-running first, with the leases that each holds. */
export async function listProcesses(db: Connection): Promise<ListedProcess[]> {
  const { rows } = await sql<ListedProcess>`
    select p.owner, p.role, p.host, p.pid, p.version, p.node_version as "nodeVersion", p.config,
           p.config_path as "configPath", p.started_at as "startedAt",
           p.seen_at as "seenAt", p.seen_at > now() - ${ALIVE_FOR} as "isAlive",
           coalesce((select jsonb_agg(l.scope order by l.scope) from fillrate.leases l
                      where l.owner = p.owner and ${isHeldSql(sql`l.leased_until`)}), '[]') as leases
      from fillrate.processes p order by p.started_at, p.owner`.execute(db)
  return rows
}
