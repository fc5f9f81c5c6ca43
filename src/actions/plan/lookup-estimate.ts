import { hash as sha } from 'node:crypto'
import type { LookupKind } from '../../domain/identifiers/kind.ts'
import { lookupKey } from '../../pipeline/pick/choose.ts'
import type { LookupSpec } from '../../store/lookups.ts'

const IS_WANTED = 1
const IS_REQUESTED = 2
const IS_FALLBACK = 4
const FIRST_SLOTS = 1 << 12

/**
 * Counts the distinct lookups of a plan, over all sources. Nine bytes per slot instead of the text, because a plan
 * may scan millions of rows: with ten million lookups, a hash collision occurs in one of 300,000 plans.
 */
export class LookupEstimate {
  /** Two halves of a hash per slot. */
  #hashes = new Uint32Array(2 * FIRST_SLOTS)
  /** 0: the slot is free. */
  #flags = new Uint8Array(FIRST_SLOTS)
  #used = 0
  #distinct = 0
  readonly #requestsByKind: Record<LookupKind, number> = {
    email: 0,
    linkedin_url: 0,
    name_company: 0,
    domain: 0,
  }
  #fallbackOnly = 0

  /**
   * Adds a lookup that a row needs.
   * @param costs it would be requested
   */
  add(lookup: LookupSpec, costs: boolean): void {
    const addedFlags = this.#mark(lookup, costs ? IS_WANTED | IS_REQUESTED : IS_WANTED)
    if ((addedFlags & IS_WANTED) !== 0) this.#distinct++
    if ((addedFlags & IS_REQUESTED) !== 0) this.#requestsByKind[lookup.kind]++
  }

  /** Adds a lookup that is requested if those before it find nothing. */
  addFallback(lookup: LookupSpec): void {
    this.#mark(lookup, IS_FALLBACK)
  }

  get distinct(): number {
    return this.#distinct
  }

  get requests(): number {
    return Object.values(this.#requestsByKind).reduce((sum, count) => sum + count, 0)
  }

  /** Maximum requests, if every row goes to the end of its cascade. */
  get maxRequests(): number {
    return this.requests + this.#fallbackOnly
  }

  countsByKind(): Record<LookupKind, number> {
    return { ...this.#requestsByKind }
  }

  /** @returns the flags that this lookup did not have before */
  #mark(lookup: LookupSpec, flags: number): number {
    if (this.#used * 4 > this.#flags.length * 3) this.#grow()
    const [high, low] = hashLookup(lookup)
    const slot = this.#slotOf(high, low)
    const flagsBefore = this.#flags[slot] ?? 0
    if (flagsBefore === 0) {
      this.#used++
      this.#hashes[2 * slot] = high
      this.#hashes[2 * slot + 1] = low
    }
    const flagsAfter = flagsBefore | flags
    this.#flags[slot] = flagsAfter
    this.#fallbackOnly += Number(isFallbackOnly(flagsAfter)) - Number(isFallbackOnly(flagsBefore))
    return flagsAfter & ~flagsBefore
  }

  /** The slot of a hash, or the free slot for it. */
  #slotOf(high: number, low: number): number {
    const mask = this.#flags.length - 1
    for (let slot = low & mask; ; slot = (slot + 1) & mask) {
      if (this.#flags[slot] === 0) return slot
      if (this.#hashes[2 * slot] === high && this.#hashes[2 * slot + 1] === low) return slot
    }
  }

  #grow(): void {
    const [hashes, flags] = [this.#hashes, this.#flags]
    this.#hashes = new Uint32Array(2 * hashes.length)
    this.#flags = new Uint8Array(2 * flags.length)
    for (const [from, flag] of flags.entries()) {
      if (flag === 0) continue
      const [high = 0, low = 0] = [hashes[2 * from], hashes[2 * from + 1]]
      const slot = this.#slotOf(high, low)
      this.#hashes[2 * slot] = high
      this.#hashes[2 * slot + 1] = low
      this.#flags[slot] = flag
    }
  }
}

const isFallbackOnly = (flags: number): boolean => (flags & IS_FALLBACK) !== 0 && (flags & IS_REQUESTED) === 0

/** The first 64 bits of a SHA-256, in two halves. */
function hashLookup(lookup: LookupSpec): readonly [high: number, low: number] {
  const bytes = sha('sha256', lookupKey(lookup), 'buffer')
  return [bytes.readUInt32LE(0), bytes.readUInt32LE(4)]
}
