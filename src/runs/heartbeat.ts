import { LeaseLostError } from '../domain/run.ts'
import { HEARTBEAT_MS, LEASE_MS, type Deps } from '../pipeline/deps.ts'
import * as runs from '../store/runs.ts'
import { repeating, runLoop } from './loop.ts'
import { firstOf, scopesOf } from './run-part.ts'

type HeartbeatDeps = Pick<Deps, 'db' | 'log' | 'service'> & { readonly elector: { readonly scope: string } }

/**
 * Keeps a run's lease.
 * @param services that it calls
 * @param onCancelled called once the run is cancelled
 * @throws LeaseLostError if another process declared the run dead
 */
export function heartbeat(
  services: readonly HeartbeatDeps[],
  id: number,
  token: string,
  signal: AbortSignal,
  onCancelled: (by: string) => void,
): Promise<void> {
  const { db, log } = firstOf(services)
  const beat = async (): Promise<number> => {
    const lease = await runs.extendRunLease(db, id, token, LEASE_MS, scopesOf(services))
    if (lease === null) throw new LeaseLostError(id, LEASE_MS)
    if (lease.cancelledBy !== null) onCancelled(lease.cancelledBy)
    return HEARTBEAT_MS
  }
  return runLoop(repeating({ name: 'heartbeat', signal, log }, beat))
}
