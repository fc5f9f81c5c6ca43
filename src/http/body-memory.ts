/** A body's share of the room, from its first byte until its request is answered. */
export interface MemoryReservation {
  /** Takes more, for a body whose length was not announced. @returns false where there is no room for it */
  grow(size: number): boolean
  /** The whole body has come: it is no longer given up for another one. */
  complete(): void
  release(): void
}

interface Reserved {
  size: number
  isReceived: boolean
  readonly onEvicted: () => void
}

/**
 * Bounds the bytes of bodies that are under way at once. A sender need not be known to begin a body, so that strangers
 * could fill any fixed room and keep it: where it is full, the largest bodies that are still incomplete are given up for
 * a smaller one. A small delivery therefore always finds room. Equal ones never displace each other, or many large
 * ones at once would displace each other for ever and none would end.
 */
export class BodyMemory {
  readonly #limit: number
  readonly #reserved = new Set<Reserved>()
  #used = 0

  constructor(most: number) {
    this.#limit = most
  }

  /** @param onEvicted called when the place is given to a smaller body @returns null where there is no room */
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

  /** Gives up nothing where that would not be enough. */
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
