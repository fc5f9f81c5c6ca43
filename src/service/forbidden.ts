import { InputsInARow } from './inputs-in-a-row.ts'

/**
 * The cause of a 403:
 * - `input`: only this input is blocked
 * - `key`: the key is not permitted, whatever the input
 * - `ban`: a temporary ban for exceeding the rate limit
 * - `unknown`: undecidable until another call is answered
 */
type ForbiddenMeaning = 'input' | 'key' | 'ban' | 'unknown'

/** A 403 within this time of a 429, or of a 403 that the limiter takes for a ban, is one: the limiter knows when it is over. */
const BAN_AFTER_MS = 60_000

/** Bounds the memory. */
const MAX_INPUTS = 10_000

interface PreviousForbidden {
  readonly times: number
  readonly accepted: number
}

/**
 * Decides from the responses to other calls whether a 403 is about the key or about one input: a firewall that blocks
 * one address must not stop a run of thousands, and a locked key must not mark every input as rejected.
 */
export class ForbiddenClassifier {
  /** Responses that show that the key is accepted. */
  #acceptedCount = 0
  /** Since the key changed. */
  #row = new InputsInARow()
  readonly #previous = new Map<string, PreviousForbidden>()
  #limitedAt = Number.NEGATIVE_INFINITY

  /** @returns a mark to pass to `classify` if this call gets a 403 */
  startCall(): number {
    return this.#acceptedCount
  }

  /** @param sentAt an answer to a call that was sent after a 429 shows that the 429 brought no ban */
  recordAccepted(sentAt: number): void {
    if (sentAt > this.#limitedAt) this.#limitedAt = Number.NEGATIVE_INFINITY
    this.#acceptedCount++
    this.#row.answer()
  }

  /** A call was rejected by the rate limit. */
  recordRateLimited(now: number): void {
    this.#limitedAt = now
  }

  /** The key changed, or is tried again: earlier responses are no evidence about it. */
  resetForKey(): void {
    this.#row = new InputsInARow()
  }

  /**
   * @param input any text that is equal for equal inputs
   * @param response its `startMark` from `startCall`, and whether its body is an HTML page, as firewalls send it
   */
  classify(
    input: string,
    response: { readonly startMark: number; readonly isHtml: boolean; readonly now: number },
  ): ForbiddenMeaning {
    if (response.now - this.#limitedAt <= BAN_AFTER_MS) return 'ban'
    const before = this.#previous.get(input)
    const occurrences = (before?.times ?? 0) + 1
    // Other calls succeeded while this one was in flight.
    const isContradicted = this.#acceptedCount > response.startMark
    const othersPassed = before !== undefined && (isContradicted || this.#acceptedCount > before.accepted)
    if (othersPassed || (response.isHtml && occurrences > 1)) {
      this.#previous.delete(input)
      return 'input'
    }
    if (before !== undefined || this.#previous.size < MAX_INPUTS)
      this.#previous.set(input, { times: occurrences, accepted: this.#acceptedCount })
    if (!isContradicted) this.#row.add(input)
    return this.#row.isProof ? 'key' : 'unknown'
  }
}
