import type { SourceKind } from '../domain/mapping.ts'
import { type CandidateField, serializedAs } from './fields.ts'
import type { IntrospectedTable } from './introspect.ts'
import { isHeadcount, isCountryName, isKnownLabel, mapToLabels } from './label-maps.ts'
import type { ProposedOutput, SkippedColumn } from './proposal.ts'
import type { ColumnRole } from './roles.ts'
import { toWordSet } from './words.ts'

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

/** A shorter text column holds a code, not the value. */
const MIN_LENGTH = 12

type Proposed = ProposedOutput | SkippedColumn

const skipColumn = ({ column }: ProposedOutput, reason: string): SkippedColumn => ({ column, reason })

/** Written as a comment: it may be right. */
const doubtOutput = (output: ProposedOutput, reason: string): SkippedColumn => ({
  column: output.column,
  reason,
  output,
})

/** How a field is filled, or why it is not. Pure. */
export function proposeOutput(
  kind: SourceKind,
  role: ColumnRole,
  field: CandidateField,
  { checkLabels }: Pick<IntrospectedTable, 'checkLabels'>,
): Proposed {
  const { name, column, fit, path, codes, holdsArrays } = field
  const output: ProposedOutput = { column: name, field: outputField(kind, role), type: column.type.name }
  const labels = fit.kind === 'enum' ? fit.labels : path.length === 0 ? checkLabels[name] : undefined
  if (codes && path.length === 0) return codeOutput(output, role, codes)
  if (labels) return labelOutput(output, role, labels)
  switch (fit.kind) {
    case 'text':
      return textOutput(output, role, field, fit.maxLength)
    case 'integer':
    case 'float':
    case 'numeric':
      return numberOutput(output, role, field)
    case 'array':
      return output
    case 'json':
    case 'jsonb':
      if (role === 'technologies') return output
      if (path.length === 0 || holdsArrays) return skipColumn(output, 'holds a list')
      return isRangeRole(role) && field.values.every(isNumber)
        ? numberOutput(output, role, field)
        : textOutput(output, role, field, null)
    default:
      return skipColumn(output, `is ${column.type.name}`)
  }
}

/** Into a column of codes that a comment explains: by what they mean. */
function codeOutput(output: ProposedOutput, role: ColumnRole, codes: ReadonlyMap<string, string>): Proposed {
  const made = labelOutput(output, role, [...codes.values()])
  if (!('map' in made) || made.map === undefined) return made
  const codeOf = new Map([...codes].map(([code, meaning]) => [meaning, code]))
  const map = Object.entries(made.map).map(
    ([sent, meaning]) => [sent, codeOf.get(meaning) ?? meaning] as const,
  )
  return { ...made, map: Object.fromEntries(map) }
}

/** Into a list: through a map to what it holds. */
function labelOutput(output: ProposedOutput, role: ColumnRole, labels: readonly string[]): Proposed {
  const map = mapToLabels(role, labels)
  const field = isHeadcount(role) ? 'employee_range' : output.field
  return map === null
    ? skipColumn(output, `accepts only ${labels.slice(0, 4).join(', ')}${labels.length > 4 ? ' …' : ''}`)
    : { ...output, field, map }
}

function textOutput(
  output: ProposedOutput,
  role: ColumnRole,
  field: CandidateField,
  maxLength: number | null,
): Proposed {
  const { values } = field
  const isCode = role === 'country' && mapToLabels(role, values) !== null
  if (maxLength !== null && maxLength < MIN_LENGTH && TEXT_ROLES.has(role) && !isCode)
    return skipColumn(output, `holds ${maxLength} characters, which is too short for ${output.field}`)
  const serialized = serializedAs(values)
  if (role === 'technologies' && serialized === 'JSON') return { ...output, as: 'json' }
  if (serialized !== null) return skipColumn(output, `holds ${serialized}`)
  if (role === 'technologies') return skipColumn(output, 'is a list in a text, in a spelling of its own')
  if (role === 'country') return countryOutput(output, values)
  if (role === 'state' && isMostly(values, (value) => /^[A-Z]{2,3}$/.test(value.trim())))
    return doubtOutput(output, 'holds abbreviations, the record has names')
  if (output.field === 'social.linkedin' && values.some((value) => /linkedin\.com\/in\//i.test(value)))
    return skipColumn(output, 'holds profiles of people')
  if (role === 'profile' || role === 'twitter') return urlOutput(output, role, values)
  if (role === 'company_domain' && isMostly(values, (value) => /^https?:/i.test(value)))
    return { ...output, sql: "'https://' || $value" }
  // Departments are typed as often as chosen; a choice of them is short.
  const labels = labelsInUse(field, role === 'department' ? 15 : 60)
  if (isRangeRole(role)) return rangeOutput(output, role, labels ?? values, field)
  if (!PICKLIST_ROLES.has(role) || labels === null) return output
  return labels.some((label) => isKnownLabel(role, label))
    ? labelOutput(output, role, labels)
    : skipColumn(
        output,
        `holds codes of its own: ${labels.slice(0, 3).join(', ')}${labels.length > 3 ? ' …' : ''}`,
      )
}

/** Fewer values prove nothing about a column's labels. */
const MIN_VALUES = 10
/** `--None--`: a choice that means no value. */
const PLACEHOLDER = /^\W*(?:none|null|n\W?a|unknown|not set|undefined|(?:please )?select.*)?\W*$/i

/** The labels in use, if a text column repeats few short values; null otherwise. */
function labelsInUse({ fit, labels = [], values }: CandidateField, most: number): readonly string[] | null {
  if (fit.kind !== 'text' || values.length < MIN_VALUES) return null
  const real = labels.filter((label) => !PLACEHOLDER.test(label))
  return real.length >= 2 && real.length <= most ? real : null
}

const TEXT_ROLES: ReadonlySet<ColumnRole> = new Set(
  'title profile phone company_name company_domain legal_name city country twitter'.split(
    ' ',
  ) as ColumnRole[],
)
const PICKLIST_ROLES: ReadonlySet<ColumnRole> = new Set([
  'seniority',
  'department',
  'industry',
  'sub_industry',
])
const isRangeRole = (role: ColumnRole): boolean => isHeadcount(role) || role === 'revenue'
const isNumber = (value: string): boolean => /^-?[\d.,\s]+$/.test(value.trim())

const isMostly = (values: readonly string[], test: (value: string) => boolean): boolean =>
  values.length > 0 && values.filter(test).length * 2 > values.length

function countryOutput(output: ProposedOutput, values: readonly string[]): Proposed {
  if (values.length === 0 || isMostly(values, isCountryName)) return output
  const map = values.length < 3 ? null : mapToLabels('country', values)
  return map === null
    ? doubtOutput(output, 'holds codes or names in another form than the record')
    : { ...output, map }
}

/** A profile as a URL, or its last part where the column holds only that. */
function urlOutput(output: ProposedOutput, role: ColumnRole, values: readonly string[]): Proposed {
  if (values.length < 3 || isMostly(values, (value) => /[./]/.test(value))) return output
  const isAt = isMostly(values, (value) => value.startsWith('@'))
  const host = role === 'twitter' ? '(?:twitter|x)' : 'linkedin'
  const part = `substring($value from '${host}\\.com/(?:in/|company/)?([^/?#]+)')`
  return { ...output, sql: isAt ? `'@' || ${part}` : part }
}

const RANGE_WORDS = toWordSet('range band size bucket')

/** A number of employees or a revenue in a text column: a number, or a range of the column's own. */
function rangeOutput(
  output: ProposedOutput,
  role: ColumnRole,
  labels: readonly string[],
  { words }: CandidateField,
): Proposed {
  const range = { ...output, field: isHeadcount(role) ? 'employee_range' : 'revenue_range' }
  if (labels.length === 0)
    return words.some((word) => RANGE_WORDS.has(word))
      ? doubtOutput(range, 'has no values to show its ranges')
      : output
  if (isMostly(labels, isNumber)) return output
  const map = mapToLabels(role, [...new Set(labels)])
  return map === null ? doubtOutput(range, 'holds ranges of its own') : { ...range, map }
}

/** Words of a unit that is not one. */
const UNIT_WORDS = toWordSet('micros cents thousands millions k m mio mn')

function numberOutput(
  output: ProposedOutput,
  role: ColumnRole,
  { values, words, fit }: CandidateField,
): Proposed {
  const numbers = values.filter((value) => Number(value) !== 0)
  if (fit.kind === 'integer' && isRangeRole(role) && numbers.length >= 15 && new Set(numbers).size <= 8)
    return doubtOutput(output, 'holds few different numbers: codes, perhaps')
  return words.some((word) => UNIT_WORDS.has(word))
    ? doubtOutput(output, 'has a unit in its name, and perhaps another currency')
    : output
}
