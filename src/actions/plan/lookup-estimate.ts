import { hash as sha } from 'node:crypto'
import { ALL_LOOKUP_KINDS, type LookupKind } from '../../domain/identifiers/kind.ts'
import { byKind } from '../../domain/service/service.ts'
import { roundCredits } from '../../domain/spend.ts'
import { lookupKey } from '../../pipeline/pick/claim.ts'
import type { LookupSpec } from '../../store/lookups.ts'

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
 * - `possible`: it is requested if its row comes to the service, or the identifiers before it find nothing
 */
type LookupUse = keyof typeof FLAGS
const FLAGS = { certain: 1, possible: 2, stored: 4 } as const
/** Of lookups that may be requested. */
const USES = ['certain', 'possible'] as const
/** A row needs it for certain. */
const IS_WANTED = FLAGS.certain | FLAGS.stored
/** The kind of the lookup, above the flags. */
const KIND_SHIFT = 3
/** Some 60 MiB. */
const MAX_COUNTED = 1 << 20

/**
 * Counts the distinct lookups of a plan at one service, over all sources, in bounded memory: exact up to
 * a million. Of more it keeps a random sample, the lookups whose hash can be divided by two, then by four
 * and so on, and multiplies: the numbers are then within half a percent (four standard errors).
 */
export class LookupEstimate {
  readonly #maxCounted: number
  /** The flags of each lookup that is kept, by its hash. */
  #flags = new Map<number, number>()
  /** Each lookup that is kept stands for this many. */
  #scale = 1
  #distinct = 0
  readonly #requests = { certain: byKind(() => 0), possible: byKind(() => 0) }

  constructor(maxCounted = MAX_COUNTED) {
    this.#maxCounted = maxCounted
  }

  /** Whether the numbers are estimates. */
  get isSampled(): boolean {
    return this.#scale > 1
  }

  /** Lookups that rows need for certain. */
  get distinct(): number {
    return this.#distinct * this.#scale
  }

  /** Those that may be requested. */
  get requests(): Readonly<Record<(typeof USES)[number], KindCounts>> {
    const { certain, possible } = this.#requests
    const scaled = (counts: KindCounts): KindCounts => byKind((kind) => counts[kind] * this.#scale)
    return { certain: scaled(certain), possible: scaled(possible) }
  }

  /** Adds a lookup of a row. */
  add(lookup: LookupSpec, use: LookupUse): void {
    const hash = hashLookup(lookup)
    if (hash % this.#scale !== 0) return
    const before = this.#flags.get(hash) ?? 0
    const after = before | FLAGS[use] | (ALL_LOOKUP_KINDS.indexOf(lookup.kind) << KIND_SHIFT)
    this.#count(before, -1)
    this.#count(after, 1)
    this.#flags.set(hash, after)
    while (this.#flags.size > this.#maxCounted) this.#keepHalf()
  }

  #count(flags: number, by: 1 | -1): void {
    if ((flags & IS_WANTED) !== 0) this.#distinct += by
    const kind = ALL_LOOKUP_KINDS[flags >> KIND_SHIFT]
    const use = USES.find((name) => (flags & FLAGS[name]) !== 0)
    if (kind !== undefined && use !== undefined) this.#requests[use][kind] += by
  }

  #keepHalf(): void {
    this.#scale *= 2
    for (const [hash, flags] of this.#flags) {
      if (hash % this.#scale === 0) continue
      this.#flags.delete(hash)
      this.#count(flags, -1)
    }
  }
}

/** The first 48 bits of a SHA-256. */
const hashLookup = (lookup: LookupSpec): number => sha('sha256', lookupKey(lookup), 'buffer').readUIntLE(0, 6)
