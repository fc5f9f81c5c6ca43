import type { IntrospectedTable } from './introspect.ts'
import type { ProposedOutput } from './proposal.ts'

const PLACE_FIELDS = new Set(['location.city', 'location.state', 'location.country'])

/**
 * Keeps the parts of one address, which are written together or not at all: a state alone may be that of an order, and another address
 * is not the company's. Pure.
 */
export function onePlace(
  outputs: readonly ProposedOutput[],
  { fields }: Pick<IntrospectedTable, 'fields'>,
): ProposedOutput[] {
  const parts = outputs.filter(({ field }) => PLACE_FIELDS.has(field))
  const [first] = parts
  if (first === undefined) return [...outputs]
  const lead = namePrefix(first, fields)
  const together = parts.filter((one) => namePrefix(one, fields) === lead)
  const isStateAlone = together.length === 1 && first.field === 'location.state'
  return outputs.flatMap((output) => {
    if (!PLACE_FIELDS.has(output.field)) return [output]
    if (!together.includes(output) || isStateAlone) return []
    return [together.length > 1 ? { ...output, group: 'address' } : output]
  })
}

/** The name without its part: `billing_address_city` and `billing_address_country_id` → billing address. */
const namePrefix = ({ column }: ProposedOutput, fields: IntrospectedTable['fields']): string =>
  fields
    .find((field) => field.name === column)
    ?.words.filter((word) => word !== 'id')
    .slice(0, -1)
    .join(' ') ?? ''
