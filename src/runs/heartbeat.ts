import { LeaseLostError } from '../domain/run.ts'
import { HEARTBEAT_MS, LEASE_MS, type Deps } from '../pipeline/deps.ts'
import * as runs from '../store/runs.ts'
import { repeating, runLoop } from './loop.ts'

/**
 * Keeps a run's lease.
 * @param onCancelled called once the run is cancelled
 * @throws LeaseLostError if another process declared the run dead
 */
export function heartbeat(
  deps: Pick<Deps, 'db' | 'log'> & { readonly elector: { readonly scope: string } },
  id: number,
  token: string,
  signal: AbortSignal,
  onCancelled: (by: string) => void,
): Promise<void> {
  const beat = async (): Promise<number> => {
    const lease = await runs.extendRunLease(deps.db, id, token, LEASE_MS, deps.elector.scope)
    if (lease === null) throw new LeaseLostError(id, LEASE_MS)
    if (lease.cancelledBy !== null) onCancelled(lease.cancelledBy)
    return HEARTBEAT_MS
  }
  return runLoop(repeating({ name: 'heartbeat', signal, log: deps.log }, beat))
}
