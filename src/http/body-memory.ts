/** Memory of one body, from its request's head until the request is answered. */
export interface MemoryReservation {
  /**
   * Reserves what has arrived.
   * @param arrived bytes since the last call
   * @param size of the whole buffer
   * @returns false if there is no room
   */
  hold(arrived: number, size: number): boolean
  /** The body is complete; it can no longer be evicted. */
  complete(): void
  release(): void
}

interface Reserved {
  size: number
  /** Bytes that are still to come. */
  remaining: number
  /** When the next bytes are due at `MIN_BYTES_PER_MS`. */
  dueAt: number
  isReceived: boolean
  readonly onEvicted: () => void
}

/** A sender that has been slower for longer than `SLACK_MS` is late. */
const MIN_BYTES_PER_MS = 64
const SLACK_MS = 1_000

/**
 * Bounds the memory of bodies in progress. Senders are not authenticated until their body is complete, so strangers
 * could fill the memory and keep it. An announced length reserves nothing. When the memory is full, incomplete bodies
 * are evicted: late senders first, then the body with the most bytes to come. So the body that needs least always completes, and
 * no two evict each other for ever.
 */
export class BodyMemory {
  readonly #limit: number
  readonly #now: () => number
  readonly #reserved = new Set<Reserved>()
  #used = 0

  constructor(limit: number, now: () => number = () => performance.now()) {
    this.#limit = limit
    this.#now = now
  }

  /**
   * @param length of the body, as announced, or its maximum
   * @param onEvicted called when the memory is given to another body
   */
  open(length: number, onEvicted: () => void): MemoryReservation {
    const dueAt = this.#now() + SLACK_MS
    const own: Reserved = { size: 0, remaining: length, dueAt, isReceived: false, onEvicted }
    this.#reserved.add(own)
    return {
      hold: (arrived, size) => {
        if (!this.#reserved.has(own)) return false
        const now = this.#now()
        own.dueAt = Math.min(own.dueAt + arrived / MIN_BYTES_PER_MS, now + SLACK_MS)
        own.remaining -= arrived
        if (!this.#makeSpace(own, size, now)) return false
        this.#used += size - own.size
        own.size = size
        return true
      },
      complete: () => {
        own.isReceived = true
      },
      release: () => this.#release(own),
    }
  }

  /** Evicts nothing if that would not free enough. */
  #makeSpace(own: Reserved, size: number, now: number): boolean {
    let lacking = this.#used + size - own.size - this.#limit
    if (lacking <= 0) return true
    const evicted: Reserved[] = []
    const later = [...this.#reserved]
      .filter((one) => !one.isReceived && precedence(one, own, now) > 0)
      .toSorted((a, b) => precedence(b, a, now))
    for (const one of later) {
      if (lacking <= 0) break
      lacking -= one.size
      evicted.push(one)
    }
    if (lacking > 0) return false
    for (const one of evicted) {
      this.#release(one)
      one.onEvicted()
    }
    return true
  }

  #release(one: Reserved): void {
    if (this.#reserved.delete(one)) this.#used -= one.size
  }
}

/** Positive if `b` comes before `a`. */
function precedence(a: Reserved, b: Reserved, now: number): number {
  const lateness = ({ dueAt }: Reserved): number => Math.max(0, now - dueAt)
  return lateness(a) - lateness(b) || a.remaining - b.remaining
}
