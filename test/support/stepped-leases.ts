import type {
  CompleteResult,
  LeasedLookup,
  LeaseOptions,
  LookupResult,
} from '../../src/store/lookup-leases.ts'

export type StepKind = 'lease' | 'mark' | 'complete' | 'release' | 'call' | 'late'

/** One statement, call or timer that is under way until a test ends it. */
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
  readonly tokens = new Map<number, string>()
  readonly #throughId = new Map<string, number>()

  constructor(lookups: number) {
    this.pending = Array.from({ length: lookups }, (_, index) => index + 1)
  }

  /** Leased lookups that a crash would leave in doubt. */
  get inDoubt(): number[] {
    return [...this.tokens].flatMap(([id, token]) => (id <= (this.#throughId.get(token) ?? 0) ? [id] : []))
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

  lease({ limit, token, startImmediately = limit }: LeaseOptions): Promise<LeasedLookup[]> {
    return this.step('lease', () => {
      const ids = this.pending.splice(0, limit).toSorted((one, other) => one - other)
      for (const id of ids) this.tokens.set(id, token)
      const through = ids[Math.min(startImmediately, ids.length) - 1]
      if (through !== undefined) this.#throughId.set(token, through)
      return ids.map((id) => ({ id, kind: 'email', input: {}, attempts: 0, token }))
    })
  }

  mark(lookups: readonly LeasedLookup[]): Promise<LeasedLookup[]> {
    return this.step('mark', () => this.#mark(lookups))
  }

  complete(results: readonly LookupResult[], next: readonly LeasedLookup[]): Promise<CompleteResult> {
    return this.step('complete', () => {
      for (const { id } of results) this.tokens.delete(id)
      return { started: this.#mark(next), unstored: [] }
    })
  }

  release(isReleased: (id: number, token: string) => boolean): Promise<void> {
    return this.step('release', () => {
      const ids = [...this.tokens].filter(([id, token]) => isReleased(id, token)).map(([id]) => id)
      for (const id of ids) this.tokens.delete(id)
      this.pending.push(...ids)
    })
  }

  #mark(lookups: readonly LeasedLookup[]): LeasedLookup[] {
    const held = lookups.filter(({ id, token }) => this.tokens.get(id) === token)
    for (const { id, token } of lookups)
      this.#throughId.set(token, Math.max(id, this.#throughId.get(token) ?? 0))
    return held
  }
}

/** Everything that can go on without the end of a statement has gone on. */
export const turn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve))
