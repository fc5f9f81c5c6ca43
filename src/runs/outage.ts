import * as waiting from '../store/run-progress.ts'
import { isOutageTooLong } from './completion.ts'
import type { Outage, ServicePart } from './run-part.ts'

/**
 * What a run knows of an outage of one of its services; null: there is none.
 * @param startedAt of the run, by `performance.now()`
 * @param aloneSince since when no other service works: an outage before that has cost no time
 */
export async function findOutage(
  { deps, id, service }: Pick<ServicePart, 'deps' | 'id' | 'service'>,
  waitingRows: number,
  { startedAt, aloneSince }: { readonly startedAt: number; readonly aloneSince: number },
): Promise<Outage | null> {
  const circuit = await deps.elector.findOpenCircuit()
  if (circuit === null) return null
  const { scope, openMs, reason, cause } = circuit
  const runMs = performance.now() - startedAt
  // For a run that began after the last refusal a call finds out anew.
  if (cause === 'out_of_credits' && circuit.backoffMs - circuit.probeInMs > runMs) return null
  const wasAnswered = await waiting.hasAnsweredLookups(deps.db, { run: id, service })
  const waitedMs = performance.now() - aloneSince
  const isTooLong = cause !== 'out_of_credits' && isOutageTooLong(Math.min(openMs, waitedMs), wasAnswered)
  return { scope, ms: openMs, reason, cause, wasAnswered, waiting: waitingRows, isTooLong }
}
