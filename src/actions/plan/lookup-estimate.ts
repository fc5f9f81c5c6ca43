import { hash as sha } from 'node:crypto'
import type { LookupKind } from '../../domain/identifiers/kind.ts'
import { lookupKey } from '../../pipeline/pick/choose.ts'
import type { LookupSpec } from '../../store/upsert-lookups.ts'

const IS_WANTED = 1
const IS_REQUESTED = 2
const IS_FALLBACK = 4
/** The kind of the lookup, above the flags. */
const KIND_SHIFT = 3
const FIRST_SLOTS = 1 << 12
/** 9 MiB. */
const MAX_SLOTS = 1 << 20

/**
 * Counts the distinct lookups of a plan, over all sources, in bounded memory: nine bytes for a lookup, and exact up to
 * 786,432. Of more it keeps a random sample, the lookups whose hash ends in one zero bit, then in two and so on, and multiplies:
 * the numbers are then within half a percent (four standard errors).
 */
export class LookupEstimate {
  readonly #maxSlots: number
  /** Two halves of a hash per slot. */
  #hashes = new Uint32Array(2 * FIRST_SLOTS)
  /** 0: the slot is free. */
  #flags = new Uint8Array(FIRST_SLOTS)
  #used = 0
  /** Zero bits at the end of each hash that is kept. */
  #sampledBits = 0
  #distinct = 0
  #requestsByKind = [0, 0, 0, 0]
  #fallbackOnly = 0

  constructor(maxSlots = MAX_SLOTS) {
    this.#maxSlots = maxSlots
  }

  /**
   * Adds a lookup that a row needs.
   * @param costs it would be requested
   */
  add(lookup: LookupSpec, costs: boolean): void {
    this.#mark(lookup, costs ? IS_WANTED | IS_REQUESTED : IS_WANTED)
  }

  /** Adds a lookup that is requested if those before it find nothing. */
  addFallback(lookup: LookupSpec): void {
    this.#mark(lookup, IS_FALLBACK)
  }

  /** Whether the numbers are estimates. */
  get isSampled(): boolean {
    return this.#sampledBits > 0
  }

  get distinct(): number {
    return this.#distinct * this.#scale
  }

  get requests(): number {
    return this.#requestsByKind.reduce((sum, count) => sum + count, 0) * this.#scale
  }

  /** Maximum requests, if every row goes to the end of its cascade. */
  get maxRequests(): number {
    return this.requests + this.#fallbackOnly * this.#scale
  }

  countsByKind(): Record<LookupKind, number> {
    const [email = 0, linkedin_url = 0, name_company = 0, domain = 0] = this.#requestsByKind.map(
      (count) => count * this.#scale,
    )
    return { email, linkedin_url, name_company, domain }
  }

  get #scale(): number {
    return 2 ** this.#sampledBits
  }

  #mark(lookup: LookupSpec, flags: number): void {
    const [high, low] = hashLookup(lookup)
    if (!this.#isKept(high)) return
    while (this.#used * 4 > this.#flags.length * 3) this.#makeRoom()
    if (!this.#isKept(high)) return
    const slot = this.#slotOf(high, low)
    const flagsBefore = this.#flags[slot] ?? 0
    if (flagsBefore === 0) {
      this.#used++
      this.#hashes[2 * slot] = high
      this.#hashes[2 * slot + 1] = low
    } else this.#count(flagsBefore, -1)
    const flagsAfter = flagsBefore | flags | (KINDS.indexOf(lookup.kind) << KIND_SHIFT)
    this.#flags[slot] = flagsAfter
    this.#count(flagsAfter, 1)
  }

  #count(flags: number, by: 1 | -1): void {
    const kind = flags >> KIND_SHIFT
    const isRequested = (flags & IS_REQUESTED) !== 0
    if ((flags & IS_WANTED) !== 0) this.#distinct += by
    if (isRequested) this.#requestsByKind[kind] = (this.#requestsByKind[kind] ?? 0) + by
    if ((flags & IS_FALLBACK) !== 0 && !isRequested) this.#fallbackOnly += by
  }

  /** By the other half than the slot, which would be one of a few otherwise. */
  #isKept(high: number): boolean {
    return (high & (this.#scale - 1)) === 0
  }

  /** The slot of a hash, or the free slot for it. */
  #slotOf(high: number, low: number): number {
    const mask = this.#flags.length - 1
    for (let slot = low & mask; ; slot = (slot + 1) & mask) {
      if (this.#flags[slot] === 0) return slot
      if (this.#hashes[2 * slot] === high && this.#hashes[2 * slot + 1] === low) return slot
    }
  }

  /** Doubles the slots, or halves what is kept. */
  #makeRoom(): void {
    const [hashes, flags] = [this.#hashes, this.#flags]
    const slots = Math.min(2 * flags.length, this.#maxSlots)
    if (slots === flags.length) this.#sampledBits++
    this.#hashes = new Uint32Array(2 * slots)
    this.#flags = new Uint8Array(slots)
    this.#used = 0
    for (const [from, flag] of flags.entries()) {
      if (flag === 0) continue
      const [high = 0, low = 0] = [hashes[2 * from], hashes[2 * from + 1]]
      if (!this.#isKept(high)) {
        this.#count(flag, -1)
        continue
      }
      const slot = this.#slotOf(high, low)
      this.#hashes[2 * slot] = high
      this.#hashes[2 * slot + 1] = low
      this.#flags[slot] = flag
      this.#used++
    }
  }
}

const KINDS: readonly LookupKind[] = ['email', 'linkedin_url', 'name_company', 'domain']

/** The first 64 bits of a SHA-256, in two halves. */
function hashLookup(lookup: LookupSpec): readonly [high: number, low: number] {
  const bytes = sha('sha256', lookupKey(lookup), 'buffer')
  return [bytes.readUInt32LE(0), bytes.readUInt32LE(4)]
}
