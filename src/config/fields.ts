import type { SourceKind } from '../domain/mapping.ts'
import { RECORD_FIELDS } from '../domain/record-fields.ts'
import { didYouMean, oneOf } from '../util/text.ts'

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
