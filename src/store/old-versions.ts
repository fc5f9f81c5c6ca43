import { type Kysely, sql } from 'kysely'
import type { Database } from './open.ts'
import { listProcesses } from './processes.ts'
import { OldProcessesError } from './schema-errors.ts'

/**
 * The oldest version that works with what a migration leaves. The name says it, because older programs know nothing else
 * of the migration: `0003_from_1_2_no_scope` requires version 1.2. Null: it only adds.
 */
export function supportedFrom(migration: string): string | null {
  const [, major, minor] = /^\d{4}_from_(\d+)_(\d+)_/.exec(migration) ?? []
  return major === undefined ? null : `${major}.${minor}`
}

export function isOlder(version: string, from: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [fromMajor = 0, fromMinor = 0] = from.split('.').map(Number)
  return major < fromMajor || (major === fromMajor && minor < fromMinor)
}

/**
 * @param from the oldest version that works with what this migration leaves
 * @throws OldProcessesError while an older one runs
 */
export async function refuseOldProcesses(
  tx: Kysely<unknown>,
  migration: string,
  from: string,
): Promise<void> {
  const db = tx as Database
  const processes = (await listProcesses(db)).filter((one) => one.isAlive)
  const owners = new Set(processes.map(({ owner }) => owner))
  const runs = (await listLivingRuns(db)).filter((run) => !owners.has(run.owner))
  const old = [
    ...processes
      .filter(({ version }) => isOlder(version, from))
      .map(({ version, role, pid, host }) => `version ${version} (${role}, process ${pid} on ${host})`),
    // Of commands such as undo and remap, which are in no list of processes.
    ...runs
      .filter(({ version }) => version === null || isOlder(version, from))
      .map(
        ({ version, id }) => `${version === null ? 'an older version' : `version ${version}`} (run ${id})`,
      ),
  ]
  if (old.length > 0) throw new OldProcessesError(migration, from, old)
}

async function listLivingRuns(db: Database) {
  const { rows } = await sql<{ id: number; owner: string; version: string | null }>`
    select id, owner, version from fillrate.runs where state = 'running' and leased_until > now() order by id`.execute(
    db,
  )
  return rows
}
