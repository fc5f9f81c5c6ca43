import { hash as sha } from 'node:crypto'
import type { LookupKind } from '../../domain/identifiers/kind.ts'
import type { Wanted } from '../../store/lookups.ts'
import { lookupId } from '../pick/choose.ts'

const WANTED = 1
const TO_ASK = 2
const AFTER = 4
const FIRST_SLOTS = 1 << 12

/**
 * The distinct lookups of a plan, over all sources. Nine bytes for each slot in place of its text, because a plan may
 * go through millions: of ten million lookups two are taken for one in
 * one of 300,000 plans.
 */
export class Questions {
  /** Two halves of a hash for each slot. */
  #hashes = new Uint32Array(2 * FIRST_SLOTS)
  /** 0: the slot is free. */
  #flags = new Uint8Array(FIRST_SLOTS)
  #used = 0
  #distinct = 0
  readonly #toAsk: Record<LookupKind, number> = { email: 0, linkedin_url: 0, name_company: 0, domain: 0 }
  #afterOnly = 0

  /** A lookup that a row wants. @param costs it would be asked */
  want(lookup: Wanted, costs: boolean): void {
    const added = this.#mark(lookup, costs ? WANTED | TO_ASK : WANTED)
    if ((added & WANTED) !== 0) this.#distinct++
    if ((added & TO_ASK) !== 0) this.#toAsk[lookup.kind]++
  }

  /** A lookup that is asked besides, should those before it find nothing. */
  wantAfter(lookup: Wanted): void {
    this.#mark(lookup, AFTER)
  }

  get distinct(): number {
    return this.#distinct
  }

  get asked(): number {
    return Object.values(this.#toAsk).reduce((sum, count) => sum + count, 0)
  }

  /** Asked at the most, when every row goes to the end of its cascade. */
  get askedAtMost(): number {
    return this.asked + this.#afterOnly
  }

  byKind(): Record<LookupKind, number> {
    return { ...this.#toAsk }
  }

  /** @returns the flags that this lookup did not have before */
  #mark(lookup: Wanted, flags: number): number {
    if (this.#used * 4 > this.#flags.length * 3) this.#grow()
    const [high, low] = hash(lookup)
    const slot = this.#slotOf(high, low)
    const before = this.#flags[slot] ?? 0
    if (before === 0) {
      this.#used++
      this.#hashes[2 * slot] = high
      this.#hashes[2 * slot + 1] = low
    }
    const after = before | flags
    this.#flags[slot] = after
    this.#afterOnly += Number(isAfterOnly(after)) - Number(isAfterOnly(before))
    return after & ~before
  }

  /** Where a hash is, or would be put. */
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

const isAfterOnly = (flags: number): boolean => (flags & AFTER) !== 0 && (flags & TO_ASK) === 0

/** The first 64 bits of a SHA-256, in two halves. */
function hash(lookup: Wanted): readonly [high: number, low: number] {
  const bytes = sha('sha256', lookupId(lookup), 'buffer')
  return [bytes.readUInt32LE(0), bytes.readUInt32LE(4)]
}
