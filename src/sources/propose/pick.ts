import type { Field } from './field.ts'
import { evidenceFor, roleByLooks } from './looks.ts'
import { isSecond, pointsFor, type Role } from './role.ts'
import type { Surveyed } from './survey.ts'
import { singular, wordsOf } from './words.ts'

/** Which field of a table holds what. */
export type Picks = ReadonlyMap<Role, Field>

export const PERSON_ROLES: readonly Role[] = [
  'email',
  'profile',
  'first_name',
  'last_name',
  'name',
  'company_name',
  'company_domain',
  'title',
  'seniority',
  'department',
  'phone',
]

export const COMPANY_ROLES: readonly Role[] = [
  'domain',
  'email',
  'name',
  'legal_name',
  'industry',
  'sub_industry',
  'employees',
  'revenue',
  'founded',
  'city',
  'state',
  'country',
  'technologies',
  'profile',
  'twitter',
]

/** Fewer points than this are a guess. */
const SURE = 60

/**
 * Gives each role the field that its name and its sampled values speak for most; a field has one role. Pure.
 * @param except names of columns that hold the keys of other rows
 */
export function pickFields(
  { table, fields }: Pick<Surveyed, 'table' | 'fields'>,
  roles: readonly Role[],
  except: ReadonlySet<string>,
): Picks {
  const own = new Set(wordsOf(table.name).flatMap((word) => [word, singular(word)]))
  const scored = fields.flatMap((field) => {
    if (!field.column.canSelect || (field.path.length === 0 && except.has(field.name))) return []
    return roles.flatMap((role) => {
      const points = canHold(role, field) ? pointsOf(role, field, own) : 0
      return points < SURE ? [] : [{ role, field, points }]
    })
  })
  const picks = new Map<Role, Field>()
  const taken = new Set<Field>()
  for (const { role, field } of scored.sort((a, b) => b.points - a.points)) {
    if (picks.has(role) || taken.has(field)) continue
    picks.set(role, field)
    taken.add(field)
  }
  return picks
}

function pointsOf(role: Role, field: Field, own: ReadonlySet<string>): number {
  const byLooks = roleByLooks(field.values) === role
  const named = pointsFor(role, field.words, own)
  if (named === 0 && !byLooks) return 0
  const looks = byLooks ? SURE - (isSecond(field.words) ? 5 : 0) : 0
  return Math.max(named, looks) + evidenceFor(role, field.values)
}

const NUMBERS: ReadonlySet<Role> = new Set(['employees', 'revenue', 'founded'])

/** Whether a column of this type can hold it at all. What of it can be written is decided with the outputs. */
function canHold(role: Role, { fit, path, holdsArrays }: Field): boolean {
  switch (fit.kind) {
    case 'text':
    case 'enum':
      return true
    case 'integer':
    case 'float':
    case 'numeric':
      return NUMBERS.has(role)
    case 'array':
      return fit.element.kind === 'text' || fit.element.kind === 'enum'
    case 'json':
    case 'jsonb':
      return path.length > 0 || holdsArrays || role === 'technologies'
    default:
      return false
  }
}
