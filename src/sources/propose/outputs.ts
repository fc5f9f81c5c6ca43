import type { SourceKind } from '../../domain/mapping.ts'
import type { Fit } from '../column-type.ts'
import type { Field } from './field.ts'
import { mapToLabels } from './labels.ts'
import type { LeftOut, ProposedOutput } from './proposal.ts'
import type { Role } from './role.ts'
import type { Surveyed } from './survey.ts'

/** The field of the record that a role is filled from. */
const FIELDS: Readonly<Record<SourceKind, Readonly<Partial<Record<Role, string>>>>> = {
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

/** The roles that can be filled in a record's order, which is the order of the configuration. */
export const outputRoles = (kind: SourceKind): Role[] => Object.keys(FIELDS[kind]) as Role[]

/** Shorter columns hold a code of the thing, which is not what the record holds. In characters. */
const SHORTEST: Readonly<Partial<Record<Role, number>>> = {
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

/** How a field of a table is filled, or why it can't be. Pure. */
export function outputFor(
  kind: SourceKind,
  role: Role,
  field: Field,
  { checked }: Pick<Surveyed, 'checked'>,
): ProposedOutput | LeftOut {
  const recordField = FIELDS[kind][role] ?? role
  const output = { column: field.name, field: recordField, type: field.column.type.name }
  const leaveOut = (why: string): LeftOut => ({ column: field.name, why })
  const labels =
    field.fit.kind === 'enum' ? field.fit.labels : field.path.length === 0 ? checked[field.name] : undefined
  if (labels) {
    const map = mapToLabels(role, labels)
    const filled = role === 'employees' ? 'employee_range' : recordField
    return map === null
      ? leaveOut(`knows only ${labels.slice(0, 4).join(', ')}${labels.length > 4 ? ' …' : ''}`)
      : { ...output, field: filled, map }
  }
  switch (field.fit.kind) {
    case 'text':
      return textOutput(output, role, field, field.fit, leaveOut)
    case 'integer':
    case 'float':
    case 'numeric':
      return { ...output, ...inUnits(field.words) }
    case 'array':
      return output
    case 'json':
    case 'jsonb':
      if (role === 'technologies') return output
      if (field.path.length === 0 || field.holdsArrays) return leaveOut('holds a list')
      return {
        ...output,
        field: ofRange(role, field) ?? recordField,
        ...(isNumeric(role) && inUnits(field.words)),
      }
    default:
      return leaveOut(`is ${field.column.type.name}`)
  }
}

function textOutput(
  output: ProposedOutput,
  role: Role,
  field: Field,
  { maxLength }: Extract<Fit, { kind: 'text' }>,
  leaveOut: (why: string) => LeftOut,
): ProposedOutput | LeftOut {
  if (maxLength !== null && maxLength < (SHORTEST[role] ?? 0))
    return leaveOut(`holds ${maxLength} characters, which is too short for ${output.field}`)
  if (role === 'technologies')
    return field.values.some((value) => value.trim().startsWith('['))
      ? { ...output, as: 'json' }
      : { ...output, sql: "array_to_string(array(select jsonb_array_elements_text($json)), ', ')" }
  return { ...output, field: ofRange(role, field) ?? output.field }
}

const isNumeric = (role: Role): boolean => role === 'employees' || role === 'revenue'

/** Whether a text is meant for `51-200` and not for a number: by its name, else by what stands in it. */
function ofRange(role: Role, { words, values }: Field): string | null {
  if (!isNumeric(role)) return null
  const named = words.some(
    (word) => word === 'range' || word === 'band' || word === 'size' || word === 'bucket',
  )
  const ranged =
    values.filter((value) => /\d\s*[-–]\s*\d|\d\s*\+|[<>]\s*\d/.test(value)).length * 2 > values.length
  if (!named && !ranged) return null
  return role === 'employees' ? 'employee_range' : 'revenue_range'
}

const UNITS: Readonly<Record<string, string>> = {
  micros: '$value * 1000000',
  cents: '$value * 100',
  thousands: '$value / 1000',
  millions: '$value / 1000000',
}

/** A sum in other units than whole ones, as its name says. */
function inUnits(words: readonly string[]): { sql?: string } {
  const unit = words.find((word) => UNITS[word] !== undefined)
  const sql = unit === undefined ? undefined : UNITS[unit]
  return sql === undefined ? {} : { sql }
}
