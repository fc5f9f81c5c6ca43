import type { SourceKind } from '../domain/mapping.ts'
import type { Fit } from '../sources/column-type.ts'
import type { CandidateField } from './fields.ts'
import { mapToLabels } from './enum-labels.ts'
import type { ProposedOutput, SkippedColumn } from './proposal.ts'
import type { ColumnRole } from './roles.ts'
import type { IntrospectedTable } from './introspect.ts'

/** The record field that fills each role. */
const OUTPUT_FIELDS: Readonly<Record<SourceKind, Readonly<Partial<Record<ColumnRole, string>>>>> = {
  person: {
    title: 'title',
    seniority: 'seniority',
    department: 'department',
    phone: 'phone',
    profile: 'linkedin',
    company_name: 'company.name',
    company_domain: 'company.domain',
  },
  company: {
    legal_name: 'legal_name',
    industry: 'industry',
    sub_industry: 'sub_industry',
    employees: 'employee_count',
    revenue: 'revenue',
    founded: 'founded_year',
    city: 'location.city',
    state: 'location.state',
    country: 'location.country',
    technologies: 'technologies',
    profile: 'social.linkedin',
    twitter: 'social.twitter',
  },
}

/** The roles that can be filled, in the order of the configuration. */
export const outputRoles = (kind: SourceKind): ColumnRole[] =>
  Object.keys(OUTPUT_FIELDS[kind]) as ColumnRole[]

/** Minimum length of a text column, in characters. Shorter columns hold a code, not the value. */
const MIN_LENGTHS: Readonly<Partial<Record<ColumnRole, number>>> = {
  title: 16,
  profile: 40,
  phone: 12,
  company_name: 20,
  company_domain: 20,
  legal_name: 20,
  industry: 12,
  sub_industry: 12,
  city: 12,
  state: 6,
  country: 12,
  twitter: 20,
}

/** How a field is filled, or why it cannot be. Pure. */
export function proposeOutput(
  kind: SourceKind,
  role: ColumnRole,
  field: CandidateField,
  { checkLabels }: Pick<IntrospectedTable, 'checkLabels'>,
): ProposedOutput | SkippedColumn {
  const recordField = OUTPUT_FIELDS[kind][role] ?? role
  const output = { column: field.name, field: recordField, type: field.column.type.name }
  const leaveOut = (reason: string): SkippedColumn => ({ column: field.name, reason })
  const labels =
    field.fit.kind === 'enum'
      ? field.fit.labels
      : field.path.length === 0
        ? checkLabels[field.name]
        : undefined
  if (labels) {
    const map = mapToLabels(role, labels)
    const filled = role === 'employees' ? 'employee_range' : recordField
    return map === null
      ? leaveOut(`accepts only ${labels.slice(0, 4).join(', ')}${labels.length > 4 ? ' …' : ''}`)
      : { ...output, field: filled, map }
  }
  switch (field.fit.kind) {
    case 'text':
      return textOutput(output, role, field, field.fit, leaveOut)
    case 'integer':
    case 'float':
    case 'numeric':
      return { ...output, ...unitConversion(field.words) }
    case 'array':
      return output
    case 'json':
    case 'jsonb':
      if (role === 'technologies') return output
      if (field.path.length === 0 || field.holdsArrays) return leaveOut('holds a list')
      return {
        ...output,
        field: rangeField(role, field) ?? recordField,
        ...(isNumericRole(role) && unitConversion(field.words)),
      }
    default:
      return leaveOut(`is ${field.column.type.name}`)
  }
}

function textOutput(
  output: ProposedOutput,
  role: ColumnRole,
  field: CandidateField,
  { maxLength }: Extract<Fit, { kind: 'text' }>,
  leaveOut: (why: string) => SkippedColumn,
): ProposedOutput | SkippedColumn {
  if (maxLength !== null && maxLength < (MIN_LENGTHS[role] ?? 0))
    return leaveOut(`holds ${maxLength} characters, which is too short for ${output.field}`)
  if (role === 'technologies')
    return field.values.some((value) => value.trim().startsWith('['))
      ? { ...output, as: 'json' }
      : { ...output, sql: "array_to_string(array(select jsonb_array_elements_text($json)), ', ')" }
  return { ...output, field: rangeField(role, field) ?? output.field }
}

const isNumericRole = (role: ColumnRole): boolean => role === 'employees' || role === 'revenue'

/** Whether a text column holds a range such as `51-200` rather than a number, by its name or its values. */
function rangeField(role: ColumnRole, { words, values }: CandidateField): string | null {
  if (!isNumericRole(role)) return null
  const named = words.some(
    (word) => word === 'range' || word === 'band' || word === 'size' || word === 'bucket',
  )
  const ranged =
    values.filter((value) => /\d\s*[-–]\s*\d|\d\s*\+|[<>]\s*\d/.test(value)).length * 2 > values.length
  if (!named && !ranged) return null
  return role === 'employees' ? 'employee_range' : 'revenue_range'
}

const UNIT_SQL: Readonly<Record<string, string>> = {
  micros: '$value * 1000000',
  cents: '$value * 100',
  thousands: '$value / 1000',
  millions: '$value / 1000000',
}

/** Converts to the column's unit, which its name states. */
function unitConversion(words: readonly string[]): { sql?: string } {
  const unit = words.find((word) => UNIT_SQL[word] !== undefined)
  const sql = unit === undefined ? undefined : UNIT_SQL[unit]
  return sql === undefined ? {} : { sql }
}

/** Calling codes have one to three digits, and none is a prefix of another (ITU-T E.164.D). */
const CALLING_CODES = String.raw`1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|\d{3}`

/**
 * Splits a phone number into calling code and number if the table has a column for each. Both are written, or
 * neither. Pure.
 */
export function splitPhoneOutput(
  output: ProposedOutput,
  number: CandidateField,
  { fields }: Pick<IntrospectedTable, 'fields'>,
): ProposedOutput[] {
  const code = fields.find((field) => isCallingCodeColumn(field, number))
  if (
    code === undefined ||
    number.values.filter((value) => value.startsWith('+')).length * 2 > number.values.length
  )
    return [output]
  const plus = code.values.length === 0 || code.values.some((value) => value.startsWith('+'))
  const [before, after] = plus ? [String.raw`^\+(?:`, ')'] : [String.raw`^\+(`, ')']
  const pattern = `'${before}${CALLING_CODES}${after}'`
  const part = (column: string, type: string, sql: string): ProposedOutput => ({
    column,
    type,
    sql,
    field: 'phone',
    group: 'phone',
  })
  return [
    part(code.name, code.column.type.name, `substring($value from ${pattern})`),
    part(output.column, output.type, `regexp_replace($value, ${pattern}, '')`),
  ]
}

/** `phoneCallingCode` beside `phoneNumber`. A country code of letters is not a calling code. */
function isCallingCodeColumn(field: CandidateField, number: CandidateField): boolean {
  const { words, fit, values, path, column } = field
  if (
    !words.includes('code') ||
    path.length > 0 ||
    fit.kind !== 'text' ||
    !column.canUpdate ||
    column.isGenerated
  )
    return false
  const isCalling = words.includes('calling') || words.includes('dial') || words.includes('dialling')
  const isCountry = words.includes('country') && values.length > 0
  if (!isCalling && !isCountry) return false
  if (!values.every((value) => /^\+?\d{1,4}$/.test(value.trim()))) return false
  const shared = words.filter((word) => word !== 'code' && number.words.includes(word))
  return shared.length > 0
}

const PLACE_FIELDS = new Set(['location.city', 'location.state', 'location.country'])

/**
 * Groups city, state and country, so that a manually entered city is never paired with another address's country. A
 * state alone is dropped: it may be the state of an order. Pure.
 */
export function groupPlaceOutputs(
  outputs: readonly ProposedOutput[],
  { fields }: Pick<IntrospectedTable, 'fields'>,
): ProposedOutput[] {
  const parts = outputs.filter(({ field }) => PLACE_FIELDS.has(field))
  const first = parts[0]
  if (first === undefined) return [...outputs]
  const lead = namePrefix(first, fields)
  const together = parts.filter((one) => namePrefix(one, fields) === lead)
  const isStateAlone = together.length === 1 && first.field === 'location.state'
  return outputs.flatMap((output) => {
    if (!PLACE_FIELDS.has(output.field)) return [output]
    if (!together.includes(output) || isStateAlone) return []
    return [together.length > 1 ? { ...output, group: 'place' } : output]
  })
}

/** The name without its part: `billing_address_city` → billing address. */
const namePrefix = ({ column }: ProposedOutput, fields: IntrospectedTable['fields']): string =>
  fields
    .find((field) => field.name === column)
    ?.words.slice(0, -1)
    .join(' ') ?? ''
