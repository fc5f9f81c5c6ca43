import { type CandidateField, isInList, serializedAs } from './fields.ts'
import { isKnownLabel } from './label-maps.ts'
import { type ColumnRole, PLACE_ROLES, isOfOthers, isSecondary, rolesOf, scoreName } from './roles.ts'
import type { IntrospectedTable } from './introspect.ts'
import { toOwnWords, toWordSet } from './words.ts'
import type { SourceKind } from '../domain/mapping.ts'
import { normalizeDomain } from '../domain/identifiers/domain.ts'
import { normalizeEmail } from '../domain/identifiers/email.ts'
import { normalizeProfileUrl } from '../domain/identifiers/profile-url.ts'

/** The field that holds each role of a table. */
export type RoleFields = ReadonlyMap<ColumnRole, CandidateField>

/** A match with fewer points is a guess. */
const MIN_POINTS = 60

/**
 * Assigns each role the field with the most points from its name and its sampled values. A field has one role. Pure.
 * @param except columns that hold the keys of other rows
 */
export function assignRoles(
  { table, fields }: Pick<IntrospectedTable, 'table' | 'fields'>,
  kind: SourceKind,
  except: ReadonlySet<string>,
): RoleFields {
  const own = toOwnWords(table.name)
  const roles = rolesOf(kind)
  const scored = fields.flatMap((field) => {
    if (!field.column.canSelect || (field.path.length === 0 && except.has(field.name))) return []
    return roles.flatMap((role) => {
      const points = canHoldRole(role, field) ? scoreField(role, field, own) : 0
      return points < MIN_POINTS ? [] : [{ role, field, points }]
    })
  })
  const roleFields = new Map<ColumnRole, CandidateField>()
  const taken = new Set<CandidateField>()
  for (const { role, field } of scored.sort((a, b) => b.points - a.points)) {
    if (roleFields.has(role) || taken.has(field)) continue
    roleFields.set(role, field)
    taken.add(field)
  }
  // Beside one part of a name, a plain name of single words is the other, also beside a full name: `nombre` and `apellidos`.
  const isPlain = ({ words, path, fit }: CandidateField): boolean =>
    path.length === 0 && fit.kind === 'text' && words.join() === 'name'
  const named = roleFields.get('name')
  const plain = fields.find(isPlain) ?? named
  const [absent, ...more] = (['first_name', 'last_name'] as const).filter((role) => !roleFields.has(role))
  const singles = plain?.values.filter((value) => !/\S\s+\S/.test(value)).length ?? 0
  if (plain && absent && more.length === 0 && roles.includes(absent) && singles * 2 >= plain.values.length) {
    roleFields.set(absent, plain)
    if (plain === named) roleFields.delete('name')
  }
  return roleFields
}

/** A name with fewer points needs values that show what the column holds. */
const CERTAIN_POINTS = 75

/** Whether a column has its role by a weak name alone. Pure. */
export function isGuess(
  role: ColumnRole,
  field: CandidateField,
  { table }: Pick<IntrospectedTable, 'table'>,
): boolean {
  const own = toOwnWords(table.name)
  return scoreField(role, field, own) < CERTAIN_POINTS
}

/** A list is known by its labels, too, if most of them are the usual ones: `nivel`, `area`. */
const LABEL_POINTS = 78
function hasLabelsOf(role: ColumnRole, { codes, labels = [], words, path }: CandidateField): boolean {
  const said = codes ? [...codes.values()] : labels
  if (!LIST_ROLES.has(role) || path.length > 0 || words.length > 2 || said.length < 4) return false
  return said.filter((label) => isKnownLabel(role, label)).length >= said.length * 0.6
}
const LIST_ROLES: ReadonlySet<ColumnRole> = new Set(['seniority', 'department', 'industry', 'employee_range'])

function scoreField(role: ColumnRole, field: CandidateField, own: ReadonlySet<string>): number {
  const byLooks = roleFromValues(field.values) === role && !isOfOthers(field.words)
  // What is said to be the company's is no person's, and is more a fact of the company than what may be the person's.
  const isOfCompany = field.words.includes('company')
  if (role === 'phone' && isOfCompany) return 0
  const said = scoreName(role, field.words, own)
  const named = said > 0 && isOfCompany && PLACE_ROLES.includes(role) ? said + 10 : said
  if (named === 0 && !byLooks && !hasLabelsOf(role, field)) return 0
  const looks = byLooks ? MIN_POINTS - (isSecondary(field.words) ? 5 : 0) : 0
  const values = field.codes ? field.values.map((value) => field.codes?.get(value) ?? value) : field.values
  return Math.max(named, looks, hasLabelsOf(role, field) ? LABEL_POINTS : 0) + scoreValues(role, values)
}

/** Inside a list of objects nothing is written, so only what identifies is of use there. */
const IDENTIFIERS: ReadonlySet<ColumnRole> = new Set(
  'email profile first_name last_name name company_name domain'.split(' ') as ColumnRole[],
)

const NUMERIC_ROLES: ReadonlySet<ColumnRole> = new Set(['employees', 'revenue', 'founded'])

/** Whether a column of this type can hold the role at all. Whether it can be written is decided with the outputs. */
function canHoldRole(role: ColumnRole, field: CandidateField): boolean {
  const { fit, path, holdsArrays, labels, codes, values } = field
  const areRanges = path.length > 0 && values.some((value) => isKnownLabel('employee_range', value))
  // A list of ranges goes beside a number.
  const isList =
    fit.kind === 'enum' || codes !== undefined || (fit.kind === 'text' && labels !== undefined) || areRanges
  if (role === 'employee_range' && !isList) return false
  if (role === 'employees' && isList) return false
  switch (fit.kind) {
    case 'text':
    case 'enum':
      return true
    case 'integer':
    case 'float':
    case 'numeric':
      return NUMERIC_ROLES.has(role) || codes !== undefined
    case 'array':
      return fit.element.kind === 'text' || fit.element.kind === 'enum'
    case 'json':
    case 'jsonb':
      return (
        (path.length > 0 && (!isInList({ path }) || IDENTIFIERS.has(role))) ||
        holdsArrays ||
        role === 'technologies'
      )
    default:
      return false
  }
}

/** Fewer sampled values than this prove nothing. */
const MIN_VALUES = 5

const isEmail = (value: string): boolean => normalizeEmail(value)?.ok === true
const isProfile = (value: string): boolean => normalizeProfileUrl(value)?.ok === true
const isCompanyPage = (value: string): boolean => /linkedin\.com\/(?:company|school|showcase)\//i.test(value)

/** The last part of a profile's URL: it can be filled, and not looked up. */
const isHandle = (value: string): boolean => /^@?[\p{L}\d_-]{3,60}$/u.test(value.trim())

/** Whether some value of a column can be looked up in this role. Pure. */
export const holdsAny = (role: 'email' | 'domain' | 'profile', values: readonly string[]): boolean =>
  values.some({ email: isEmail, domain: isSite, profile: isProfile }[role])

/**
 * A host or a URL. A social network's or a free mailer's host identifies no company, but shows what the column is
 * for.
 */
function isSite(value: string): boolean {
  const read = normalizeDomain(value)
  return read?.ok === true || (read?.ok === false && /(?:free-mail|social) host|localhost/.test(read.reason))
}

const isPhone = (value: string): boolean =>
  /^[+(]?[\d\s().\-/]{5,}(?:\s*(?:ext|x)\.?\s*\d+)?$/i.test(value.trim()) &&
  value.replaceAll(/\D/g, '').length >= 5

const isJobTitle = (value: string): boolean =>
  /\b(?:chief|c[efimot]o|president|vp|head|director|manager|lead|owner|founder|partner|officer|engineer|developer|architect|consultant|analyst|designer|specialist|coordinator|assistant|accountant|buyer|sales|marketing|executive|representative|administrator|technician|supervisor|advisor|lawyer|counsel|nurse|teacher|professor|intern)\b/i.test(
    value,
  )

const isNumber = (value: string): boolean => /^-?[\d.,\s]+$/.test(value.trim())

const SALUTATIONS = toWordSet('mr mrs ms miss mx dr prof herr frau hr fru monsieur madame sr sra')
const isSalutation = (value: string): boolean =>
  SALUTATIONS.has(value.trim().toLowerCase().replace(/\.$/, ''))

/** What the values of a role look like; those of the others are any text. */
const LOOKS: Readonly<Partial<Record<ColumnRole, (value: string) => boolean>>> = {
  email: isEmail,
  profile: (value) => isProfile(value) || isCompanyPage(value) || isHandle(value),
  domain: isSite,
  company_domain: isSite,
  phone: isPhone,
  // In lower case it is the state of a row.
  state: (value) => /^\P{Ll}/u.test(value.trim()),
  twitter: (value) => /^https?:\/\/|\.com\//i.test(value) || isHandle(value),
  founded: (value) => /^(?:1[5-9]|20)\d\d$/.test(value.trim()),
  employees: (value) => /\d/.test(value),
  employee_range: (value) => /\d/.test(value),
  revenue: (value) => /\d/.test(value),
}

/** What is no fact in words: a number, an address, a form of address. */
const isOtherText = (value: string): boolean =>
  isNumber(value) || isEmail(value) || /^https?:\/\//i.test(value) || isSalutation(value)

/**
 * Points to add for how well the sampled values match the role: many count for it, few against it, and none at all rules it
 * out. Pure.
 */
function scoreValues(role: ColumnRole, values: readonly string[]): number {
  if (role === 'technologies' || values.length < MIN_VALUES) return 0
  const share = (test: (value: string) => boolean): number => values.filter(test).length / values.length
  const looks = LOOKS[role]
  if (looks !== undefined) {
    const fitting = share(looks)
    return fitting < 0.05 ? -1_000 : Math.round(fitting * 20)
  }
  if (serializedAs(values) !== null || share(isOtherText) > 0.6) return -1_000
  return role === 'title' && share(isJobTitle) >= 0.4 ? 15 : 0
}

/** The role of a column by its values alone, whatever its name. It is needed for every role of a table. */
function roleFromValues(values: readonly string[]): ColumnRole | null {
  const known = ROLES_OF_VALUES.get(values)
  const role = known === undefined ? readRole(values) : known
  ROLES_OF_VALUES.set(values, role)
  return role
}

const ROLES_OF_VALUES = new WeakMap<readonly string[], ColumnRole | null>()

function readRole(values: readonly string[]): ColumnRole | null {
  const enough = values.length >= 2 * MIN_VALUES
  if (enough && values.filter(isEmail).length >= values.length * 0.7) return 'email'
  if (enough && values.filter(isProfile).length >= values.length * 0.7) return 'profile'
  return null
}
