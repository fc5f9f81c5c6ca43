import type { CircuitCause } from './rate-status.ts'
import { toHost, type TroubleCode } from './trouble.ts'

/** A trouble that may be why others are seen. */
export interface Cause {
  readonly code: TroubleCode
  readonly subject: string
  /** When it was proved to be over; null: it holds. */
  readonly endedAt: Date | null
}

/** What a symptom is about. No scope: any service. */
interface SymptomSubject {
  readonly scope: string | null
  readonly sources: readonly string[]
}

/** As what an open circuit is reported. */
export const CIRCUIT_TROUBLES = {
  unreachable: 'service_down',
  failing: 'circuit_open',
  out_of_credits: 'out_of_credits',
} as const satisfies Readonly<Record<CircuitCause, TroubleCode>>

const SERVICE_CAUSES = ['key_refused', 'banned', ...Object.values(CIRCUIT_TROUBLES)] as const

/** Why each symptom may be seen. It has neither a trouble nor a notification of its own while one of its causes holds. */
const CAUSES_OF = {
  run_failed: [...SERVICE_CAUSES, 'database_away'],
  calls_waiting: [...SERVICE_CAUSES, 'shared_key', 'database_away'],
  live_sync_behind: [...SERVICE_CAUSES, 'database_away', 'source_broken'],
  schedule_late: ['database_away'],
} as const satisfies Partial<Record<TroubleCode, readonly TroubleCode[]>>

type Symptom = keyof typeof CAUSES_OF

/** All that explain something. */
export const CAUSE_CODES: readonly TroubleCode[] = [...new Set(Object.values(CAUSES_OF).flat())]

/** A run may end just after the proof that its cause is over. */
const AFTER_MS = 10_000

/**
 * Whether a cause is about the same: Postgres, the source, or else the service. Of a refused key the run may name the next one:
 * the host decides.
 */
function covers({ code, subject }: Cause, { scope, sources }: SymptomSubject): boolean {
  if (code === 'source_broken') return sources.includes(subject)
  return code === 'database_away' || scope === null || toHost(scope) === toHost(subject)
}

/** What explains symptoms at one moment. Pure. */
export class Causes {
  readonly #causes: readonly Cause[]

  constructor(causes: readonly Cause[]) {
    this.#causes = causes
  }

  /**
   * From when on a symptom counts, in milliseconds since the epoch: anew from the end of its latest cause, as what a cause
   * has delayed takes its time to be made up for. Infinity: a cause holds.
   */
  countsFrom(symptom: Symptom, about: SymptomSubject): number {
    const ends = this.#listCauses(symptom, about).map(({ endedAt }) => endedAt?.getTime() ?? Infinity)
    return Math.max(Number.NEGATIVE_INFINITY, ...ends)
  }

  /** Whether what happened at a time is part of a cause that holds, or that was proved to be over since. */
  explains(symptom: Symptom, about: SymptomSubject, at: Date): boolean {
    return this.countsFrom(symptom, about) >= at.getTime() - AFTER_MS
  }

  #listCauses(symptom: Symptom, about: SymptomSubject): Cause[] {
    const codes: readonly TroubleCode[] = CAUSES_OF[symptom]
    return this.#causes.filter((cause) => codes.includes(cause.code) && covers(cause, about))
  }
}
