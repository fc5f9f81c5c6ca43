import { sql } from 'kysely'
import { deleteSilent, listProcesses } from './processes.ts'
import { interruptExpired } from './runs.ts'
import { OldProcessesError } from './schema-errors.ts'
import { isOlder } from './supported-version.ts'
import type { Tx } from './transaction.ts'

/**
 * Ends the support of older versions, until the transaction ends: what they would start waits for it, and is refused then.
 * @param from the oldest version that works with what this migration leaves
 * @throws OldProcessesError while an older one runs
 */
export async function endOldVersions(tx: Tx, migration: string, from: string): Promise<void> {
  await sql`lock table fillrate.processes, fillrate.runs in share row exclusive mode`.execute(tx)
  const processes = (await listProcesses(tx)).filter((one) => one.isAlive)
  const owners = new Set(processes.map(({ owner }) => owner))
  const runs = (await listLivingRuns(tx)).filter((run) => !owners.has(run.owner))
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
  // A process that was asleep, and not dead, finds that its run has ended, and has to register again.
  await interruptExpired(tx, [])
  await deleteSilent(tx)
}

async function listLivingRuns(tx: Tx) {
  const { rows } = await sql<{ id: number; owner: string; version: string | null }>`
    select id, owner, version from fillrate.runs where state = 'running' and leased_until > now() order by id`.execute(
    tx,
  )
  return rows
}
