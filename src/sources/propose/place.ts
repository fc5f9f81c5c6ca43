import type { ProposedOutput } from './proposal.ts'
import type { Surveyed } from './survey.ts'

const PARTS = new Set(['location.city', 'location.state', 'location.country'])

/**
 * City, state and country are written together or not at all, so that a city which somebody typed never stands beside
 * another one's country. A state alone is taken for something else: the state of an order or a talk. Pure.
 */
export function placeOutputs(
  outputs: readonly ProposedOutput[],
  { fields }: Pick<Surveyed, 'fields'>,
): ProposedOutput[] {
  const parts = outputs.filter(({ field }) => PARTS.has(field))
  const first = parts[0]
  if (first === undefined) return [...outputs]
  const lead = prefixOf(first, fields)
  const together = parts.filter((one) => prefixOf(one, fields) === lead)
  const isStateAlone = together.length === 1 && first.field === 'location.state'
  return outputs.flatMap((output) => {
    if (!PARTS.has(output.field)) return [output]
    if (!together.includes(output) || isStateAlone) return []
    return [together.length > 1 ? { ...output, group: 'place' } : output]
  })
}

/** What the name says besides the part: `billing_address_city` → billing address. */
const prefixOf = ({ column }: ProposedOutput, fields: Surveyed['fields']): string =>
  fields
    .find((field) => field.name === column)
    ?.words.slice(0, -1)
    .join(' ') ?? ''
