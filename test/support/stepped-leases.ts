import type {
  CompleteResult,
  LeasedLookup,
  LeaseOptions,
  LookupResult,
} from '../../src/store/lookup-leases.ts'

export type StepKind = 'lease' | 'complete' | 'release' | 'call'

/** One statement or call that is under way until a test ends it. */
export interface Step {
  readonly kind: StepKind
  /** It does what it is to do, and its result arrives. */
  commit(): void
  /** It does nothing, or it does it and only the result is lost. */
  fail(error: Error, isCommitted?: boolean): void
}

/** What the store has of leases, in memory, and statements that end in the order that a test chooses. */
export class SteppedLeases {
  steps: Step[] = []
  readonly pending: number[]
  /** Of leased lookups: those that a crash would leave in doubt. */
  readonly tokens = new Map<number, string>()

  constructor(lookups: number) {
    this.pending = Array.from({ length: lookups }, (_, index) => index + 1)
  }

  step<T>(kind: StepKind, act: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const end = (settle: () => void): void => {
        this.steps = this.steps.filter((one) => one !== step)
        settle()
      }
      const step: Step = {
        kind,
        commit: () => end(() => resolve(act())),
        fail: (error, isCommitted = false) =>
          end(() => {
            if (isCommitted) act()
            reject(error)
          }),
      }
      this.steps.push(step)
    })
  }

  /** Waits until a statement of this kind is under way. */
  async next(kind: StepKind): Promise<Step> {
    for (;;) {
      const step = this.steps.find((one) => one.kind === kind)
      if (step !== undefined) return step
      await turn()
    }
  }

  lease(options: LeaseOptions): Promise<LeasedLookup[]> {
    return this.step('lease', () => this.#lease(options))
  }

  complete(results: readonly LookupResult[], next: LeaseOptions | null): Promise<CompleteResult> {
    return this.step('complete', () => {
      for (const { id } of results) this.tokens.delete(id)
      return { leased: next === null ? [] : this.#lease(next), unstored: [] }
    })
  }

  release(isReleased: (id: number, token: string) => boolean): Promise<void> {
    return this.step('release', () => {
      const ids = [...this.tokens].filter(([id, token]) => isReleased(id, token)).map(([id]) => id)
      for (const id of ids) this.tokens.delete(id)
      this.pending.push(...ids)
    })
  }

  #lease({ limit, token }: LeaseOptions): LeasedLookup[] {
    const ids = this.pending.splice(0, limit).toSorted((one, other) => one - other)
    for (const id of ids) this.tokens.set(id, token)
    return ids.map((id) => ({ id, kind: 'email', input: {}, attempts: 0, token }))
  }
}

/** Everything that can go on without the end of a statement has gone on. */
export const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))
