import { LOOKUP_KINDS, type LookupKind } from '../identifiers/kind.ts'
import type { RecordShapes } from '../record-fields.ts'
import type { CreditsDefinition } from './adapter.ts'

/** What lookups cost, in credits, which budgets count. Without a definition: one each. */
export interface ServiceCredits {
  /** Every lookup costs one credit, whatever it finds. */
  readonly isFlat: boolean
  /** The least and the most that a lookup may cost. */
  readonly least: Readonly<Record<LookupKind, number>>
  readonly most: Readonly<Record<LookupKind, number>>
  /** What a lookup costs, by its record; null: no match. */
  of(kind: LookupKind, record: Readonly<Record<string, unknown>> | null): number
}

const KINDS: readonly LookupKind[] = [...LOOKUP_KINDS.person, ...LOOKUP_KINDS.company]

const byKind = (toCount: (kind: LookupKind) => number): Record<LookupKind, number> => ({
  email: toCount('email'),
  linkedin_url: toCount('linkedin_url'),
  name_company: toCount('name_company'),
  domain: toCount('domain'),
})

/** Completes what a service bills. */
export function readCredits(definition: CreditsDefinition, shapes: RecordShapes): ServiceCredits {
  const [hit, miss] = [definition.hit, definition.miss].map((given) =>
    byKind((kind) => (typeof given === 'object' ? given[kind] : given) ?? 1),
  ) as [Record<LookupKind, number>, Record<LookupKind, number>]
  const fields = Object.entries(definition.fields ?? {})
  const ofSource = (kind: LookupKind): (typeof fields)[number][] => {
    const shape = shapes[kind === 'domain' ? 'company' : 'person']
    return fields.filter(([field]) => Object.hasOwn(shape, field))
  }
  const extras = byKind((kind) => ofSource(kind).reduce((sum, [, more]) => sum + more, 0))
  const most = byKind((kind) => Math.max(miss[kind], hit[kind] + extras[kind]))
  const least = byKind((kind) => Math.min(miss[kind], hit[kind]))
  return {
    isFlat: KINDS.every((kind) => most[kind] === 1 && least[kind] === 1),
    least,
    most,
    of: (kind, record) => {
      if (record === null) return miss[kind]
      const filled = fields.filter(([field]) => isFilled(valueAtPath(record, field)))
      return filled.reduce((sum, [, more]) => sum + more, hit[kind])
    },
  }
}

const isFilled = (value: unknown): boolean =>
  value !== null && value !== undefined && value !== '' && !(Array.isArray(value) && value.length === 0)

/** The value of a field such as `location.city`; undefined if it is missing. */
export const valueAtPath = (record: unknown, path: string): unknown =>
  path
    .split('.')
    .reduce<unknown>(
      (at, key) => (typeof at === 'object' && at !== null ? (at as Record<string, unknown>)[key] : undefined),
      record,
    )
