/** Memory reserved for a body, from its first byte until its request is answered. */
export interface MemoryReservation {
  /**
   * Reserves more, for a body of unknown length.
   * @returns false if there is no room
   */
  grow(size: number): boolean
  /** The body is complete; it can no longer be evicted. */
  complete(): void
  release(): void
}

interface Reserved {
  size: number
  isReceived: boolean
  readonly onEvicted: () => void
}

/**
 * Bounds the memory of bodies in progress. Senders are not authenticated until their body is complete, so strangers
 * could fill a fixed budget and keep it. When it is full, the largest incomplete bodies are evicted for a smaller
 * one, so a small delivery always finds room. Bodies of equal size never evict each other; otherwise many large ones
 * would do so for ever and none would finish.
 */
export class BodyMemory {
  readonly #limit: number
  readonly #reserved = new Set<Reserved>()
  #used = 0

  constructor(most: number) {
    this.#limit = most
  }

  /**
   * @param onEvicted called when the memory is given to a smaller body
   * @returns null if there is no room
   */
  reserve(size: number, onEvicted: () => void): MemoryReservation | null {
    if (!this.#makeSpace(size, size, null)) return null
    const place: Reserved = { size, isReceived: false, onEvicted }
    this.#reserved.add(place)
    this.#used += size
    return {
      grow: (to) => {
        if (!this.#reserved.has(place) || !this.#makeSpace(to - place.size, to, place)) return false
        this.#used += to - place.size
        place.size = to
        return true
      },
      complete: () => {
        place.isReceived = true
      },
      release: () => this.#release(place),
    }
  }

  /** Evicts nothing if that would not free enough. */
  #makeSpace(more: number, size: number, own: Reserved | null): boolean {
    let lacking = this.#used + more - this.#limit
    const evicted: Reserved[] = []
    const larger = [...(lacking > 0 ? this.#reserved : [])]
      .filter((place) => place !== own && !place.isReceived && place.size > size)
      .toSorted((a, b) => b.size - a.size)
    for (const place of larger) {
      if (lacking <= 0) break
      lacking -= place.size
      evicted.push(place)
    }
    if (lacking > 0) return false
    for (const place of evicted) {
      this.#release(place)
      place.onEvicted()
    }
    return true
  }

  #release(place: Reserved): void {
    if (this.#reserved.delete(place)) this.#used -= place.size
  }
}
