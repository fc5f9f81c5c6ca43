import type { CallDeps } from '../deps.ts'

/**
 * How many calls the circuit breaker and the keys let through now: all, one as a probe, or none. Looked at before anything is
 * leased: an open circuit would otherwise lease and put back every lookup that waits, again and again.
 */
export function openCalls(
  {
    breaker,
    client,
  }: {
    readonly breaker: Pick<CallDeps['breaker'], 'state' | 'nextProbeAt'>
    readonly client: Pick<CallDeps['client'], 'openCalls'>
  },
  now: number,
): number {
  switch (breaker.state) {
    case 'closed':
      return client.openCalls
    case 'half_open':
      return 0
    case 'open':
      return (breaker.nextProbeAt ?? 0) <= now ? Math.min(1, client.openCalls) : 0
  }
}
