/** A body's share of the room, from its first byte until its request is answered. */
export interface Place {
  /** Takes more, for a body whose length was not announced. @returns false where there is no room for it */
  grow(size: number): boolean
  /** The whole body has come: it is no longer given up for another one. */
  received(): void
  leave(): void
}

interface Taken {
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
export class Room {
  readonly #most: number
  readonly #places = new Set<Taken>()
  #taken = 0

  constructor(most: number) {
    this.#most = most
  }

  /** @param onEvicted called when the place is given to a smaller body @returns null where there is no room */
  enter(size: number, onEvicted: () => void): Place | null {
    if (!this.#makeRoom(size, size, null)) return null
    const place: Taken = { size, isReceived: false, onEvicted }
    this.#places.add(place)
    this.#taken += size
    return {
      grow: (to) => {
        if (!this.#places.has(place) || !this.#makeRoom(to - place.size, to, place)) return false
        this.#taken += to - place.size
        place.size = to
        return true
      },
      received: () => {
        place.isReceived = true
      },
      leave: () => this.#leave(place),
    }
  }

  /** Gives up nothing where that would not be enough. */
  #makeRoom(more: number, size: number, own: Taken | null): boolean {
    let lacking = this.#taken + more - this.#most
    const evicted: Taken[] = []
    const larger = [...(lacking > 0 ? this.#places : [])]
      .filter((place) => place !== own && !place.isReceived && place.size > size)
      .toSorted((a, b) => b.size - a.size)
    for (const place of larger) {
      if (lacking <= 0) break
      lacking -= place.size
      evicted.push(place)
    }
    if (lacking > 0) return false
    for (const place of evicted) {
      this.#leave(place)
      place.onEvicted()
    }
    return true
  }

  #leave(place: Taken): void {
    if (this.#places.delete(place)) this.#taken -= place.size
  }
}
