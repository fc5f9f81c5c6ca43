import { hash as sha } from 'node:crypto'
import { ALL_LOOKUP_KINDS, type LookupKind } from '../../domain/identifiers/kind.ts'
import { byKind } from '../../domain/service/credits.ts'
import { roundCredits } from '../../domain/spend.ts'
import { lookupKey } from '../../pipeline/pick/choose.ts'
import type { LookupSpec } from '../../store/upsert-lookups.ts'

/** A number for each kind of lookup. */
export type KindCounts = Readonly<Record<LookupKind, number>>

export const sumOf = (counts: KindCounts): number =>
  Object.values(counts).reduce((sum, count) => sum + count, 0)

/** What lookups cost, at a cost for each kind. */
export function sumCredits(
  counts: KindCounts,
  each: KindCounts,
): { readonly all: number; readonly person: number; readonly company: number } {
  const all = roundCredits(sumOf(byKind((kind) => counts[kind] * each[kind])))
  const company = roundCredits(counts.domain * each.domain)
  return { all, person: roundCredits(all - company), company }
}

/**
 * What a lookup is to a plan; of several, the first of `FLAGS` counts.
 * - `stored`: a row needs it, and has its answer
 * - `certain`: it is requested
 * - `possible`: it is requested if its row comes to the service
 * - `further`: it is requested if the identifiers before it find nothing
 */
type LookupUse = keyof typeof FLAGS
const FLAGS = { certain: 1, possible: 2, further: 4, stored: 8 } as const
/** Of lookups that may be requested. */
export const USES = ['certain', 'possible', 'further'] as const
/** A row needs it for certain. */
const IS_WANTED = FLAGS.certain | FLAGS.stored
/** The kind of the lookup, above the flags. */
const KIND_SHIFT = 4
const FIRST_SLOTS = 1 << 12
/** 9 MiB. */
const MAX_SLOTS = 1 << 20

/**
 * Counts the distinct lookups of a plan at one service, over all sources, in bounded memory: nine bytes for a lookup, and exact
 * up to 786,432. Of more it keeps a random sample, the lookups whose hash ends in one zero bit, then in two and so on, and
 * multiplies: the numbers are then within half a percent (four standard errors).
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
  readonly #requests = { certain: byKind(() => 0), possible: byKind(() => 0), further: byKind(() => 0) }

  constructor(maxSlots = MAX_SLOTS) {
    this.#maxSlots = maxSlots
  }

  /** Whether the numbers are estimates. */
  get isSampled(): boolean {
    return this.#sampledBits > 0
  }

  /** Lookups that rows need for certain. */
  get distinct(): number {
    return this.#distinct * this.#scale
  }

  /** Those that may be requested. */
  get requests(): Readonly<Record<(typeof USES)[number], KindCounts>> {
    const { certain, possible, further } = this.#requests
    const scaled = (counts: KindCounts): KindCounts => byKind((kind) => counts[kind] * this.#scale)
    return { certain: scaled(certain), possible: scaled(possible), further: scaled(further) }
  }

  get #scale(): number {
    return 2 ** this.#sampledBits
  }

  /**
   * Adds a lookup of a row.
   * @returns whether it is counted for this row, and was for none before
   */
  add(lookup: LookupSpec, use: LookupUse): boolean {
    const [high, low] = hashLookup(lookup)
    if (!this.#isKept(high)) return false
    while (this.#used * 4 > this.#flags.length * 3) this.#makeRoom()
    if (!this.#isKept(high)) return false
    const slot = this.#slotOf(high, low)
    const flagsBefore = this.#flags[slot] ?? 0
    if (flagsBefore === 0) {
      this.#used++
      this.#hashes[2 * slot] = high
      this.#hashes[2 * slot + 1] = low
    } else this.#count(flagsBefore, -1)
    const flagsAfter = flagsBefore | FLAGS[use] | (ALL_LOOKUP_KINDS.indexOf(lookup.kind) << KIND_SHIFT)
    this.#flags[slot] = flagsAfter
    this.#count(flagsAfter, 1)
    return flagsBefore === 0
  }

  #count(flags: number, by: 1 | -1): void {
    if ((flags & IS_WANTED) !== 0) this.#distinct += by
    const kind = ALL_LOOKUP_KINDS[flags >> KIND_SHIFT]
    const use = USES.find((one) => (flags & FLAGS[one]) !== 0)
    if (kind !== undefined && use !== undefined) this.#requests[use][kind] += by
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

/** The first 64 bits of a SHA-256, in two halves. */
function hashLookup(lookup: LookupSpec): readonly [high: number, low: number] {
  const bytes = sha('sha256', lookupKey(lookup), 'buffer')
  return [bytes.readUInt32LE(0), bytes.readUInt32LE(4)]
}
