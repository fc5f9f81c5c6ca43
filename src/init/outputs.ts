import { toWordSet } from './words.ts'
import type { SourceKind } from '../domain/mapping.ts'
import type { Fit } from '../sources/column-type.ts'
import { type CandidateField, serializedAs } from './fields.ts'
import { EMPLOYEE_RANGES, isKnownLabel, mapToLabels } from './enum-labels.ts'
import { countryMap, isCountryName, labelsInUse, widerRangeMap } from './picklists.ts'
import type { ProposedOutput, SkippedColumn } from './proposal.ts'
import type { ColumnRole } from './roles.ts'
import { quoteLiteral } from '../sources/quote.ts'
import { pluralize } from '../util/format.ts'
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
    employee_range: 'employee_range',
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

export const outputField = (kind: SourceKind, role: ColumnRole): string => OUTPUT_FIELDS[kind][role] ?? role

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

/** How a field is filled, or why it is not. Pure. */
export function proposeOutput(
  kind: SourceKind,
  role: ColumnRole,
  field: CandidateField,
  { checkLabels }: Pick<IntrospectedTable, 'checkLabels'>,
): ProposedOutput | SkippedColumn {
  const output: ProposedOutput = {
    column: field.name,
    field: outputField(kind, role),
    type: field.column.type.name,
  }
  const labels =
    field.fit.kind === 'enum'
      ? field.fit.labels
      : field.path.length === 0
        ? checkLabels[field.name]
        : undefined
  if (field.codes && field.path.length === 0) return codeOutput(output, role, field.codes)
  if (labels) return labelOutput(output, role, labels)
  switch (field.fit.kind) {
    case 'text':
      return textOutput(output, role, field, field.fit)
    case 'integer':
    case 'float':
    case 'numeric':
      return numberOutput(output, role, field)
    case 'array':
      return output
    case 'json':
    case 'jsonb':
      if (role === 'technologies') return output
      if (field.path.length === 0 || field.holdsArrays) return skipColumn(output, 'holds a list')
      return jsonOutput(output, role, field)
    default:
      return skipColumn(output, `is ${field.column.type.name}`)
  }
}

const skipColumn = ({ column }: ProposedOutput, reason: string): SkippedColumn => ({ column, reason })

/** Written as a comment: it may be right. */
const doubtOutput = (output: ProposedOutput, reason: string): SkippedColumn => ({
  column: output.column,
  reason,
  output,
})

/** An output into a column of codes that a comment explains: by what they mean. */
function codeOutput(
  output: ProposedOutput,
  role: ColumnRole,
  codes: ReadonlyMap<string, string>,
): ProposedOutput | SkippedColumn {
  const made = labelOutput(output, role, [...codes.values()])
  if (!('map' in made) || made.map === undefined) return made
  const codeOf = new Map([...codes].map(([code, meaning]) => [meaning, code]))
  const map = Object.entries(made.map).flatMap(([sent, meaning]) => {
    const code = codeOf.get(meaning)
    return code === undefined ? [] : [[sent, code] as const]
  })
  return { ...made, map: Object.fromEntries(map) }
}

/** An output into a column that accepts only these labels. */
function labelOutput(
  output: ProposedOutput,
  role: ColumnRole,
  labels: readonly string[],
): ProposedOutput | SkippedColumn {
  if (isRangeRole(role) && !labels.every((label) => isKnownLabel(role, label))) {
    const made = rangesOutput(output, role, labels)
    if (made !== null) return made
  }
  const map = role === 'country' ? countryMap(labels) : mapToLabels(role, labels)
  const filled = isHeadcount(role) ? 'employee_range' : output.field
  return map === null
    ? skipColumn(output, `accepts only ${labels.slice(0, 4).join(', ')}${labels.length > 4 ? ' …' : ''}`)
    : { ...output, field: filled, map }
}

const LIST_SEPARATORS = [', ', ',', '; ', ';', ' | ', '|', '\n']

function textOutput(
  output: ProposedOutput,
  role: ColumnRole,
  field: CandidateField,
  { maxLength }: Extract<Fit, { kind: 'text' }>,
): ProposedOutput | SkippedColumn {
  const { values, words } = field
  const isCode = role === 'country' && countryMap(values) !== null
  if (maxLength !== null && maxLength < (MIN_LENGTHS[role] ?? 0) && !isCode)
    return skipColumn(output, `holds ${maxLength} characters, which is too short for ${output.field}`)
  const serialized = serializedAs(values)
  if (role === 'technologies') {
    if (serialized === 'JSON') return { ...output, as: 'json' }
    if (serialized !== null) return skipColumn(output, `holds ${serialized}`)
    const separator = LIST_SEPARATORS.find((one) => values.filter((value) => value.includes(one)).length >= 2)
    const joined = {
      ...output,
      sql: `array_to_string(array(select jsonb_array_elements_text($json)), ${quoteLiteral(separator ?? ', ')})`,
    }
    return doubtOutput(
      joined,
      separator === undefined
        ? 'shows no separator of a list'
        : 'is a list in a text, perhaps in a spelling of its own',
    )
  }
  if (serialized !== null) return skipColumn(output, `holds ${serialized}`)
  if (role === 'country') return countryOutput(output, values)
  if (role === 'state' && isMostly(values, (value) => /^[A-Z]{2,3}$/.test(value.trim())))
    return doubtOutput(output, 'holds abbreviations, the record has names')
  if (
    role === 'profile' &&
    output.field === 'social.linkedin' &&
    values.some((value) => /linkedin\.com\/in\//i.test(value))
  )
    return skipColumn(output, 'holds profiles of people')
  if (role === 'profile' || role === 'twitter') return urlOutput(output, role, values)
  if (role === 'company_domain' && isMostly(values, (value) => /^https?:/i.test(value)))
    return { ...output, sql: "'https://' || $value" }
  // Departments are typed as often as chosen; a choice of them is short.
  const labels = labelsInUse(field, role === 'department' ? 15 : 60)
  if (isRangeRole(role)) return rangeOutput(output, role, labels ?? [...new Set(values)], words)
  if (!PICKLIST_ROLES.has(role) || labels === null) return output
  const known = labels.filter((label) => isKnownLabel(role, label))
  const map = mapToLabels(role, labels)
  return map === null || known.length === 0
    ? skipColumn(
        output,
        `holds codes of its own: ${labels.slice(0, 3).join(', ')}${labels.length > 3 ? ' …' : ''}`,
      )
    : { ...output, map }
}

const PICKLIST_ROLES: ReadonlySet<ColumnRole> = new Set([
  'seniority',
  'department',
  'industry',
  'sub_industry',
])
const isHeadcount = (role: ColumnRole): boolean => role === 'employees' || role === 'employee_range'
const isRangeRole = (role: ColumnRole): boolean => isHeadcount(role) || role === 'revenue'

const isMostly = (values: readonly string[], test: (value: string) => boolean): boolean =>
  values.length > 0 && values.filter(test).length * 2 > values.length

function countryOutput(output: ProposedOutput, values: readonly string[]): ProposedOutput | SkippedColumn {
  if (values.length === 0 || isMostly(values, isCountryName)) return output
  const codes = values.length < 3 ? null : countryMap(values)
  if (codes !== null) return { ...output, map: codes }
  return doubtOutput(
    output,
    isMostly(values, (value) => /^[A-Za-z]{2,3}$/.test(value.trim()))
      ? 'holds codes, the record has names'
      : 'holds other names than English ones',
  )
}

/** A profile as a URL, or its last part where the column holds only that. */
function urlOutput(
  output: ProposedOutput,
  role: ColumnRole,
  values: readonly string[],
): ProposedOutput | SkippedColumn {
  if (values.length < 3 || isMostly(values, (value) => /[./]/.test(value))) return output
  const isAt = isMostly(values, (value) => value.startsWith('@'))
  const handle = role === 'twitter' ? '(?:twitter|x)' : 'linkedin'
  const part = `substring($value from '${handle}\\.com/(?:in/|company/)?([^/?#]+)')`
  return { ...output, sql: isAt ? `'@' || ${part}` : part }
}

/** A number of employees or a revenue in a text column: a number, or a range of the column's own. */
function rangeOutput(
  output: ProposedOutput,
  role: ColumnRole,
  labels: readonly string[],
  words: readonly string[],
): ProposedOutput | SkippedColumn {
  const isRanged = isMostly(labels, (value) => /\d\D*[-–—]\D*\d|\d\s*\+|[<>]\s*\D?\d|\d to \d/i.test(value))
  const range = { ...output, field: isHeadcount(role) ? 'employee_range' : 'revenue_range' }
  if (labels.length === 0) {
    const isNamed = words.some((word) => RANGE_WORDS.has(word))
    return isNamed ? doubtOutput(range, 'has no values to show its ranges') : output
  }
  if (!isRanged)
    return isMostly(labels, (value) => /^[\d.,\s]+$/.test(value.trim()))
      ? output
      : doubtOutput(output, 'holds neither numbers nor ranges')
  if (isHeadcount(role) && labels.every((label) => isKnownLabel(role, label)))
    return { ...range, map: mapToLabels(role, labels) ?? {} }
  return rangesOutput(output, role, labels) ?? doubtOutput(range, 'holds ranges of its own')
}

/** Into ranges of the column's own, as far as they hold those of the service whole. */
function rangesOutput(
  output: ProposedOutput,
  role: ColumnRole,
  labels: readonly string[],
): ProposedOutput | null {
  const map = isHeadcount(role) ? widerRangeMap(labels, EMPLOYEE_RANGES) : null
  return map === null ? null : { ...output, field: 'employee_range', map }
}

const RANGE_WORDS = toWordSet('range band size bucket')

function numberOutput(
  output: ProposedOutput,
  role: ColumnRole,
  { values, words, fit }: CandidateField,
): ProposedOutput | SkippedColumn {
  const numbers = values.filter((value) => Number(value) !== 0)
  const distinct = new Set(numbers).size
  if (fit.kind === 'integer' && isRangeRole(role) && numbers.length >= 15 && distinct <= 8)
    return doubtOutput(output, `holds only ${pluralize(distinct, 'number')}: codes, perhaps`)
  return hasUnit(words) ? doubtOutput(output, 'has a unit in its name, and perhaps another currency') : output
}

/** Words of a unit that is not one. */
const hasUnit = (words: readonly string[]): boolean => words.some((word) => UNIT_WORDS.has(word))
const UNIT_WORDS = toWordSet('micros cents thousands millions k m mio mn')

function jsonOutput(
  output: ProposedOutput,
  role: ColumnRole,
  field: CandidateField,
): ProposedOutput | SkippedColumn {
  const { values } = field
  if (role === 'country' || role === 'profile' || role === 'twitter')
    return textOutput(output, role, field, { kind: 'text', maxLength: null })
  if (!isRangeRole(role)) return output
  const isNumeric = values.length === 0 || isMostly(values, (value) => /^-?[\d.]+$/.test(value.trim()))
  return isNumeric
    ? numberOutput(output, role, field)
    : rangeOutput(output, role, [...new Set(values)], field.words)
}
