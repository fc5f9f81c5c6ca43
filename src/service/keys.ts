import { createHash } from 'node:crypto'

/** A name for a key that may be logged and stored: the first 8 hex digits of its SHA-256. */
export const keyIdOf = (key: string): string => createHash('sha256').update(key).digest('hex').slice(0, 8)

export type Key = { readonly id: string; readonly secret: string }

/**
 * The API keys, newest first, and which of them the service has refused. Several are active at once while one
 * takes over from another (interface document, Authentication 4), so a refused one gives way to the next.
 */
export class KeyRing {
  readonly #keys: readonly Key[]
  readonly #refused = new Set<Key>()
  #current: Key
  /** The keys are tried again: one call at a time, until the service accepts one. */
  #isOnTrial = false
  #isTrying = false

  /** Throws a TypeError that names the key by its place, never by its text. */
  constructor(secrets: string | readonly string[]) {
    const given = (typeof secrets === 'string' ? [secrets] : secrets).map((secret) => secret.trim())
    given.forEach((secret, i) => {
      // Anything else cannot stand in a header, and a comma or a space is a list that was not split.
      if (!/^[\x21-\x2b\x2d-\x7e]+$/.test(secret)) {
        throw new TypeError(
          `API key ${i + 1} of ${given.length} is ${secret === '' ? 'empty' : 'not one word of printable ASCII'}: ` +
            'expected a key as the service issued it (FILLRATE_API_KEY, several separated by commas)',
        )
      }
    })
    this.#keys = [...new Set(given)].map((secret) => ({ id: keyIdOf(secret), secret }))
    const [first] = this.#keys
    if (first === undefined) throw new TypeError('no API key: expected at least one (FILLRATE_API_KEY)')
    this.#current = first
  }

  get count(): number {
    return this.#keys.length
  }

  /** The key in use; when all are refused, the last that was. */
  get current(): Key {
    return this.#current
  }

  get allRefused(): boolean {
    return this.#refused.size === this.#keys.length
  }

  /** How many have not been refused. */
  get usable(): number {
    return this.#keys.length - this.#refused.size
  }

  /**
   * Notes that the service refused a key, and moves on to the next that it has not. Answers to calls that were
   * under way with the same key come later and change nothing: `isNews` is true the first time only.
   */
  refuse(key: Key): { isNews: boolean } {
    if (this.#refused.has(key)) return { isNews: false }
    this.#refused.add(key)
    const next = this.#keys.find((candidate) => !this.#refused.has(candidate))
    if (this.#current === key && next !== undefined) this.#current = next
    return { isNews: true }
  }

  /** The service has taken a call with this key. */
  accept(): void {
    this.#isOnTrial = false
  }

  get isOnTrial(): boolean {
    return this.#isOnTrial
  }

  /** How many calls may begin now. */
  get openCalls(): number {
    if (this.allRefused) return 0
    if (!this.#isOnTrial) return Number.POSITIVE_INFINITY
    return this.#isTrying ? 0 : 1
  }

  /** A call begins. @returns ends it; null where another one tries the key */
  begin(): (() => void) | null {
    if (!this.#isOnTrial) return () => {}
    if (this.#isTrying) return null
    this.#isTrying = true
    return () => {
      this.#isTrying = false
    }
  }

  /** Makes every key usable again for one call, the newest first: somebody may have put it right. */
  forgetRefusals(): void {
    if (this.#refused.size === 0) return
    this.#refused.clear()
    this.#current = this.#keys[0] ?? this.#current
    this.#isOnTrial = true
  }
}
