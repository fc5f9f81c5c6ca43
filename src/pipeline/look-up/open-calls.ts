import type { Breaker } from '../../service/breaker.ts'

/**
 * How many calls the circuit breaker lets through now: all, one as a probe, or none. Looked at before anything is
 * leased: an open circuit would otherwise lease and put back every lookup that waits, again and again.
 */
export function openCalls(breaker: Pick<Breaker, 'state' | 'nextProbeAt'>, now: number): number {
  switch (breaker.state) {
    case 'closed':
      return Number.POSITIVE_INFINITY
    case 'half_open':
      return 0
    case 'open':
      return (breaker.nextProbeAt ?? 0) <= now ? 1 : 0
  }
}
