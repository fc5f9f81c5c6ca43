import type { IntrospectedTable } from './introspect.ts'
import type { ProposedOutput } from './proposal.ts'

const UNIT_SQL: Readonly<Record<string, string>> = {
  micros: '$value * 1000000',
  cents: '$value * 100',
  thousands: '$value / 1000',
  millions: '$value / 1000000',
}

/** Converts to the column's unit, which its name states. */
export function unitConversion(words: readonly string[]): { sql?: string } {
  const unit = words.find((word) => UNIT_SQL[word] !== undefined)
  const sql = unit === undefined ? undefined : UNIT_SQL[unit]
  return sql === undefined ? {} : { sql }
}

const PLACE_FIELDS = new Set(['location.city', 'location.state', 'location.country'])

/** Keeps the parts of one address: a state alone may be that of an order, and another address is not the company's. Pure. */
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
  return outputs.filter(
    (output) => !PLACE_FIELDS.has(output.field) || (together.includes(output) && !isStateAlone),
  )
}

/** The name without its part: `billing_address_city` and `billing_address_country_id` → billing address. */
const namePrefix = ({ column }: ProposedOutput, fields: IntrospectedTable['fields']): string =>
  fields
    .find((field) => field.name === column)
    ?.words.filter((word) => word !== 'id')
    .slice(0, -1)
    .join(' ') ?? ''
