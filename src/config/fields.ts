import type { SourceKind } from '../domain/mapping.ts'
import { didYouMean, oneOf } from '../util/text.ts'

/** The fields of a record of each kind, as the service's interface lists them. A dot leads into an object. */
export const RECORD_FIELDS = {
  person: [
    'id',
    'email',
    'name.full',
    'name.first',
    'name.last',
    'title',
    'seniority',
    'department',
    'phone',
    'linkedin',
    'company.id',
    'company.name',
    'company.domain',
    'confidence',
    'last_updated',
  ],
  company: [
    'id',
    'name',
    'legal_name',
    'domain',
    'industry',
    'sub_industry',
    'employee_count',
    'employee_range',
    'revenue',
    'revenue_range',
    'founded_year',
    'location.city',
    'location.state',
    'location.country',
    'technologies',
    'social.linkedin',
    'social.twitter',
  ],
} as const satisfies Record<SourceKind, readonly string[]>

/** A field of the record that a source of this kind can copy into a column. */
export type RecordField<Kind extends SourceKind> = (typeof RECORD_FIELDS)[Kind][number]

/** What to do about a field that a record of this kind doesn't have. */
export function suggestField(kind: SourceKind, field: string): string {
  const other = kind === 'person' ? 'company' : 'person'
  const near = didYouMean(field, RECORD_FIELDS[kind])
  if (near !== null) return near
  const fieldsOfOther: readonly string[] = RECORD_FIELDS[other]
  if (fieldsOfOther.includes(field)) {
    return `'${field}' is a field of a ${other} record: map it in a source of kind '${other}'.`
  }
  return `If the service sends a field that is not listed, write { field: '${field}', unlisted: true }.`
}

/** What a field of this kind may be, for a message. */
export const describeFields = (kind: SourceKind): string =>
  `a field of a ${kind} record: ${oneOf(RECORD_FIELDS[kind])}`
