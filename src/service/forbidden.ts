/**
 * What a 403 is about. `input`: this one alone is not let through. `key`: the key may not do this, whatever the input.
 * `ban`: the service leaves us out for a while, because it was called too often. `unknown`: only another call can tell.
 */
export type ForbiddenMeaning = 'input' | 'key' | 'ban' | 'unknown'

export interface ForbiddenClassification {
  readonly meaning: ForbiddenMeaning
  /** How often this input was answered so, with this time. */
  readonly occurrences: number
}

/** A 403 so soon after a 429 is a ban, in milliseconds. */
const BAN_AFTER_MS = 60_000

/** Inputs that are remembered. */
const MAX_INPUTS = 10_000

interface PreviousForbidden {
  readonly times: number
  readonly accepted: number
}

/**
 * Tells by what else is answered whether a 403 is meant for the key or for one input: a firewall that blocks one address
 * must not stop a run of thousands, and a key that is locked must not write off every input. Pure but for what it keeps.
 */
export class ForbiddenClassifier {
  /** Answers so far that show that the key is accepted. */
  #acceptedCount = 0
  /** Inputs that got a 403 since the last of those. */
  #consecutiveInputs = new Set<string>()
  readonly #previous = new Map<string, PreviousForbidden>()
  #limitedAt = Number.NEGATIVE_INFINITY
  #isBanned = false

  /** A call begins. @returns what its 403 is to be judged by */
  startCall(): number {
    return this.#acceptedCount
  }

  recordAccepted(): void {
    this.#acceptedCount++
    this.#isBanned = false
    if (this.#consecutiveInputs.size > 0) this.#consecutiveInputs = new Set()
  }

  /** A call was refused for the rate. */
  recordRateLimited(now: number): void {
    this.#limitedAt = now
  }

  /** Another key is used, or the same one again: what was answered before says nothing of it. */
  resetForKey(): void {
    this.#consecutiveInputs = new Set()
  }

  /**
   * @param input what was asked about, in any form that is the same for the same question
   * @param answer when the call began, by `begin`; and whether a page for people came, as a firewall sends it
   */
  classify(
    input: string,
    answer: { readonly began: number; readonly isHtml: boolean; readonly now: number },
  ): ForbiddenClassification {
    if (this.#isBanned || answer.now - this.#limitedAt <= BAN_AFTER_MS) {
      this.#isBanned = true
      return { meaning: 'ban', occurrences: 0 }
    }
    const before = this.#previous.get(input)
    const occurrences = (before?.times ?? 0) + 1
    if (before !== undefined || this.#previous.size < MAX_INPUTS)
      this.#previous.set(input, { times: occurrences, accepted: this.#acceptedCount })
    // Others were answered while it was on its way.
    const isContradicted = this.#acceptedCount > answer.began
    if (!isContradicted) this.#consecutiveInputs.add(input)
    if (this.#consecutiveInputs.size > 1) return { meaning: 'key', occurrences }
    const othersPassed = before !== undefined && (isContradicted || this.#acceptedCount > before.accepted)
    const isInput = othersPassed || (answer.isHtml && occurrences > 1)
    if (isInput) this.#previous.delete(input)
    return { meaning: isInput ? 'input' : 'unknown', occurrences }
  }
}
