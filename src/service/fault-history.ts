/** What is known of one call's subject when its call failed. */
export interface AttemptCounts {
  /** Faults that are proved to be its own: to be stored with it. */
  readonly attempts: number
  /** All of its tries that failed, also those that may be the service's. */
  readonly tries: number
}

/** A lookup that is called about, with the attempts that are stored. */
export interface CallSubject {
  readonly id: number
  readonly attempts: number
}

/** Faults since the last answer. `stored` of them are among the stored attempts already. */
interface UnattributedFaults {
  faults: number
  stored: number
}

/** Subjects that are remembered. What is forgotten costs one more try. */
const MAX_SUBJECTS = 50_000

/**
 * Decides whose fault a fault was. The service's, for all that is known, until it answers another call; then it was the
 * input's. So an outage counts against no input, and an input that always fails does not pass for an outage. An
 * attempt is not stored at once and taken back when the circuit opens: by then another process may hold the lookup.
 */
export class FaultHistory {
  /** Calls that were answered so far. */
  #responses = 0
  #unattributed = new Map<number, UnattributedFaults>()
  /** Faults that are proved and not yet stored: they are, with the next outcome of their subject. */
  readonly #attributed = new Map<number, number>()

  /** A call begins. @returns what its fault is to be judged by */
  startCall(): number {
    return this.#responses
  }

  /** @param wasDown the circuit was open: what failed before this answer was the service's fault */
  recordResponse(subject: CallSubject | undefined, wasDown: boolean): void {
    this.#responses++
    if (!wasDown)
      for (const [id, { faults, stored }] of this.#unattributed)
        if (faults > stored && this.#attributed.size < MAX_SUBJECTS)
          this.#attributed.set(id, (this.#attributed.get(id) ?? 0) + faults - stored)
    if (this.#unattributed.size > 0) this.#unattributed = new Map()
    if (subject !== undefined) this.#attributed.delete(subject.id)
  }

  /**
   * @param began what `begin` returned for this call
   * @returns whether it speaks against the service: not where others were answered meanwhile, or where the same input
   * failed before while others were answered
   */
  recordFault(subject: CallSubject | undefined, began: number): boolean {
    let isSuspect = false
    if (subject !== undefined) {
      const own = this.#unattributed.get(subject.id) ?? { faults: 0, stored: 0 }
      isSuspect = subject.attempts - own.stored + (this.#attributed.get(subject.id) ?? 0) > 0
      own.faults++
      if (this.#unattributed.size < MAX_SUBJECTS) this.#unattributed.set(subject.id, own)
    }
    return !isSuspect && this.#responses === began
  }

  /**
   * What is to be stored with a subject whose call has failed.
   * @param isCounted counts it at once, whosever fault it was, because it may have been paid for
   */
  countAttempts(subject: CallSubject, isCounted: boolean): AttemptCounts {
    const own = this.#unattributed.get(subject.id)
    const proved = subject.attempts + (this.#attributed.get(subject.id) ?? 0)
    this.#attributed.delete(subject.id)
    if (own === undefined) return { attempts: proved + (isCounted ? 1 : 0), tries: proved + 1 }
    const tries = proved + own.faults - own.stored
    if (!isCounted) return { attempts: proved, tries }
    own.stored = own.faults
    return { attempts: tries, tries }
  }
}
