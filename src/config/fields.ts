import type { SourceKind } from '../domain/mapping.ts'
import type { Service } from '../domain/service/service.ts'
import { didYouMean, oneOf } from '../util/text.ts'

/** The fields of a service's records; none of a kind: the service describes none. */
export type ServiceFields = { readonly [Kind in SourceKind]: readonly string[] }

/** The fields that outputs of a service may copy. */
export const fieldsOf = ({ shapes }: Pick<Service, 'shapes'>): ServiceFields => ({
  person: Object.keys(shapes.person),
  company: Object.keys(shapes.company),
})

/** What to do about a field that a record of this kind doesn't have. */
export const suggestField = (kind: SourceKind, field: string, fields: ServiceFields): string =>
  didYouMean(field, fields[kind]) ?? adviseUnlisted(field)

export const adviseUnlisted = (field: string): string =>
  `If the service sends a field that is not listed, write { field: '${field}', unlisted: true }.`

/** What a field of this kind may be, for a message. */
export const describeFields = (kind: SourceKind, fields: readonly string[]): string =>
  `a field of a ${kind} record: ${oneOf(fields)}`
