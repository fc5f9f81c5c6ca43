import type { LookupKind } from '../../domain/identifiers/kind.ts'
import type { Wanted } from '../../store/lookups.ts'
import { lookupId } from '../pick/choose.ts'

/** The distinct lookups of a plan, over all sources. */
export class Questions {
  readonly #distinct = new Set<string>()
  readonly #toAsk = new Map<string, LookupKind>()
  readonly #after = new Set<string>()

  /** A lookup that a row wants. @param costs it would be asked */
  want(lookup: Wanted, costs: boolean): void {
    const id = lookupId(lookup)
    this.#distinct.add(id)
    if (costs) this.#toAsk.set(id, lookup.kind)
  }

  /** A lookup that is asked besides, should those before it find nothing. */
  wantAfter(lookup: Wanted): void {
    this.#after.add(lookupId(lookup))
  }

  get distinct(): number {
    return this.#distinct.size
  }

  get asked(): number {
    return this.#toAsk.size
  }

  /** Asked at the most, when every row goes to the end of its cascade. */
  get askedAtMost(): number {
    let more = 0
    for (const id of this.#after) if (!this.#toAsk.has(id)) more++
    return this.#toAsk.size + more
  }

  byKind(): Record<LookupKind, number> {
    const counts: Record<LookupKind, number> = { email: 0, linkedin_url: 0, name_company: 0, domain: 0 }
    for (const kind of this.#toAsk.values()) counts[kind]++
    return counts
  }
}
