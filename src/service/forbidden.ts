/**
 * What a 403 is about. `input`: this one alone is not let through. `key`: the key may not do this, whatever the input.
 * `ban`: the service leaves us out for a while, because it was called too often. `unknown`: only another call can tell.
 */
export type ForbiddenMeaning = 'input' | 'key' | 'ban' | 'unknown'

export interface Forbidden {
  readonly meaning: ForbiddenMeaning
  /** How often this input was answered so, with this time. */
  readonly times: number
}

/** A 403 so soon after a 429 is a ban, in milliseconds. */
const BAN_AFTER_MS = 60_000

/** Inputs that are remembered. */
const MOST = 10_000

interface Before {
  readonly times: number
  readonly accepted: number
}

/**
 * Tells by what else is answered whether a 403 is meant for the key or for one input: a firewall that blocks one address
 * must not stop a run of thousands, and a key that is locked must not write off every input. Pure but for what it keeps.
 */
export class ForbiddenAnswers {
  /** Answers so far that show that the key is accepted. */
  #accepted = 0
  /** Inputs that got a 403 since the last of those. */
  #inARow = new Set<string>()
  readonly #before = new Map<string, Before>()
  #limitedAt = Number.NEGATIVE_INFINITY
  #isBanned = false

  /** A call begins. @returns what its 403 is to be judged by */
  begin(): number {
    return this.#accepted
  }

  accepted(): void {
    this.#accepted++
    this.#isBanned = false
    if (this.#inARow.size > 0) this.#inARow = new Set()
  }

  /** A call was refused for the rate. */
  limited(now: number): void {
    this.#limitedAt = now
  }

  /** Another key is used, or the same one again: what was answered before says nothing of it. */
  changeKey(): void {
    this.#inARow = new Set()
  }

  /**
   * @param input what was asked about, in any form that is the same for the same question
   * @param answer when the call began, by `begin`; and whether a page for people came, as a firewall sends it
   */
  judge(
    input: string,
    answer: { readonly began: number; readonly isHtml: boolean; readonly now: number },
  ): Forbidden {
    if (this.#isBanned || answer.now - this.#limitedAt <= BAN_AFTER_MS) {
      this.#isBanned = true
      return { meaning: 'ban', times: 0 }
    }
    const before = this.#before.get(input)
    const times = (before?.times ?? 0) + 1
    if (before !== undefined || this.#before.size < MOST)
      this.#before.set(input, { times, accepted: this.#accepted })
    // Others were answered while it was on its way.
    const isContradicted = this.#accepted > answer.began
    if (!isContradicted) this.#inARow.add(input)
    if (this.#inARow.size > 1) return { meaning: 'key', times }
    const othersPassed = before !== undefined && (isContradicted || this.#accepted > before.accepted)
    const isInput = othersPassed || (answer.isHtml && times > 1)
    if (isInput) this.#before.delete(input)
    return { meaning: isInput ? 'input' : 'unknown', times }
  }
}
