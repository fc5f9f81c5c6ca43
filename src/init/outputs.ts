import type { SourceKind } from '../domain/mapping.ts'
import { type CandidateField, serializedAs } from './fields.ts'
import type { IntrospectedTable } from './introspect.ts'
import { isCountryName, isHeadcount, mapToLabels } from './label-maps.ts'
import type { ProposedOutput, SkippedColumn } from './proposal.ts'
import { type ColumnRole, outputField } from './roles.ts'
import { hasWord, toWordSet } from './words.ts'

export type Proposed = ProposedOutput | SkippedColumn

/** Written as a comment: it may be right. */
export const doubtOutput = (output: ProposedOutput, reason: string): SkippedColumn => ({
  column: output.column,
  reason,
  output,
})

const NUMBERS: ReadonlySet<string> = new Set(['integer', 'float', 'numeric'])

/** How a field is filled: as it is, through a map to the labels that it holds, or not without a look at it. Pure. */
export function proposeOutput(
  kind: SourceKind,
  role: ColumnRole,
  field: CandidateField,
  table: Pick<IntrospectedTable, 'fields'>,
): Proposed {
  const { name: column, fit, path, codes, holdsArrays } = field
  const type = field.column.type.name
  const output: ProposedOutput = { column, field: outputField(kind, role) ?? role, type }
  const isWhole = path.length === 0
  const isJson = fit.kind === 'json' || fit.kind === 'jsonb'
  if (isWhole && codes) return labelOutput(output, role, [...codes.values()], codes)
  if (fit.kind === 'enum') return labelOutput(output, role, fit.labels)
  if (fit.kind === 'array' || (isJson && role === 'technologies')) return output
  if (NUMBERS.has(fit.kind)) {
    if (hasWord(field.words, UNIT_WORDS)) return doubtOutput(output, 'has a unit in its name')
    const numbers = field.values.filter((value) => Number(value) !== 0)
    const isRepeated = numbers.length >= 15 && new Set(numbers).size <= 8
    return fit.kind === 'integer' && isRangeRole(role) && isRepeated
      ? doubtOutput(output, 'holds few different numbers: codes, perhaps')
      : output
  }
  if (isJson && (isWhole || holdsArrays)) return { column, reason: 'holds a list' }
  if (!isJson && fit.kind !== 'text') return { column, reason: `is ${type}` }
  return textOutput(output, role, field, table)
}

/** Into a list of labels, or of codes that stand for them: through a map from what the service sends. */
export function labelOutput(
  output: ProposedOutput,
  role: ColumnRole,
  labels: readonly string[],
  codes: ReadonlyMap<string, string> = new Map(),
): Proposed {
  const map = mapToLabels(role, labels)
  const shown = `${labels.slice(0, 4).join(', ')}${labels.length > 4 ? ' …' : ''}`
  if (map === null) return { column: output.column, reason: `holds labels of its own: ${shown}` }
  const codeOf = new Map([...codes].map(([code, meaning]) => [meaning, code]))
  const stored = Object.entries(map).map(([sent, label]) => [sent, codeOf.get(label) ?? label])
  const field = isHeadcount(role) ? 'employee_range' : output.field
  return { ...output, field, map: Object.fromEntries(stored) as Record<string, string> }
}

/** A shorter text column holds a code, not the value. */
const MIN_LENGTH = 12
const ABBREVIATION = /^\s*[A-Z]{2,3}\s*$/
const NUMBER = /^[\s\d.,-]+$/
const E164 = /^\+[1-9]\d{6,14}$/
const RANGE_WORDS = toWordSet('range band size bucket')
const LIST_ROLES = new Set<ColumnRole>(['seniority', 'department', 'industry', 'sub_industry'])

const isRangeRole = (role: ColumnRole): boolean => isHeadcount(role) || role === 'revenue'

const areMostly = (values: readonly string[], test: (value: string) => boolean): boolean =>
  values.length > 0 && values.filter(test).length * 2 > values.length

function textOutput(
  output: ProposedOutput,
  role: ColumnRole,
  { values, labels = [], fit, words }: CandidateField,
  { fields }: Pick<IntrospectedTable, 'fields'>,
): Proposed {
  const serialized = serializedAs(values)
  if (role === 'technologies')
    return serialized === 'JSON'
      ? { ...output, sql: '$json::text' }
      : doubtOutput(output, 'is a list in a text')
  if (serialized !== null) return doubtOutput(output, `holds ${serialized}`)
  if (role === 'country' && areMostly(values, isCountryName)) return output
  if (isRangeRole(role) && areMostly(values, (value) => NUMBER.test(value))) return output
  // Departments are typed as often as chosen; a choice of them is short.
  const isTyped = labels.length < 2 || (role === 'department' && labels.length > 15)
  const isList = LIST_ROLES.has(role) ? !isTyped : role === 'country' || isRangeRole(role)
  if (isList && values.length > 0) return labelOutput(output, role, labels.length > 1 ? labels : values)
  if (fit.kind === 'text' && fit.maxLength !== null && fit.maxLength < MIN_LENGTH && role !== 'founded')
    return doubtOutput(output, `holds ${fit.maxLength} characters, which is too short for ${output.field}`)
  if (isRangeRole(role) && hasWord(words, RANGE_WORDS))
    return doubtOutput(
      { ...output, field: isHeadcount(role) ? 'employee_range' : 'revenue_range' },
      'has no values to show its ranges',
    )
  if (role === 'state' && areMostly(values, (value) => ABBREVIATION.test(value)))
    return doubtOutput(output, 'holds abbreviations, the record has names')
  if (output.field === 'social.linkedin' && areMostly(values, (value) => value.includes('/in/')))
    return doubtOutput(output, 'holds profiles of people')
  const isLink = role === 'profile' || role === 'twitter'
  if (isLink && values.length > 0 && !areMostly(values, (value) => /[./]/.test(value)))
    return doubtOutput(output, 'holds names, the record has URLs')
  if (role !== 'phone') return output
  if (fields.some((one) => one.words.includes('calling')))
    return doubtOutput(output, 'has the calling code in another column: see examples/composite-columns')
  const isNormal = values.length >= 5 && values.every((value) => E164.test(value.trim()))
  // Some programs accept no other form.
  return isNormal ? { ...output, matches: E164.source } : output
}

/** Words of a unit that is not one. */
const UNIT_WORDS = toWordSet('micros cents thousands millions k m mio mn')

const PLACE_FIELDS = new Set(['location.city', 'location.state', 'location.country'])
const PLACE_WORDS = toWordSet('id code name or town locality region province city state country')

/** Only the parts of one address, by the beginning of their names, which are written together or not at all. Pure. */
export function onePlace(
  outputs: readonly ProposedOutput[],
  { fields }: Pick<IntrospectedTable, 'fields'>,
): ProposedOutput[] {
  const places = outputs.map(({ column, field }) => {
    const words = fields.find(({ name }) => name === column)?.words ?? []
    return PLACE_FIELDS.has(field) ? words.filter((word) => !PLACE_WORDS.has(word)).join(' ') : null
  })
  const address = places.find((one) => one !== null)
  const isGroup = places.filter((one) => one !== null && one === address).length > 1
  return outputs.flatMap((one, n) => {
    if (places[n] === null) return [one]
    return places[n] === address ? [isGroup ? { ...one, group: 'address' } : one] : []
  })
}
