import type { SourceKind } from '../domain/mapping.ts'
import type { RoleFields } from './assign-roles.ts'
import type { IntrospectedTable } from './introspect.ts'
import { type ColumnRole, kindPoints } from './roles.ts'
import type { PartyTypeFilter } from './row-filters.ts'
import { headNoun, toWordSet } from './words.ts'

/** A table with the roles of its columns. */
type UnclassifiedTable = Pick<IntrospectedTable, 'table' | 'sampled'> & {
  readonly person: RoleFields
  readonly company: RoleFields
  readonly partyType: PartyTypeFilter | null
}

/** What the rows of a table are: people, companies, both, or neither. Pure. */
export function findKinds(surveyed: UnclassifiedTable, isNamed: boolean): SourceKind[] {
  const { table, person, company, partyType } = surveyed
  const roleFields = { person, company }
  const hints = { person: nameHint('person', table.name), company: nameHint('company', table.name) }
  const scores = {
    person: scoreTable('person', table.name, person.keys()),
    company: scoreTable('company', table.name, company.keys()),
  }
  const isLike = (kind: SourceKind): boolean => {
    if (hints[kind] === 'none')
      return (
        (scores[kind] > MIN_SCORE + 1 && hasIdentity(kind, roleFields[kind])) || showsKind(kind, surveyed)
      )
    if (!OWN_ROLES[kind].some((role) => roleFields[kind].has(role))) return false
    // A strong name needs little else: email addresses, for instance, may be in another table.
    return hints[kind] === 'strong' || scores[kind] >= MIN_SCORE
  }
  const like = (['person', 'company'] as const).filter(isLike)
  if (like.length > 0 && partyType !== null) return ['person', 'company']
  const likelier: SourceKind[] = scores.company > scores.person ? ['company'] : ['person']
  if (like.length === 0 && isNamed) return likelier
  if (like.includes('person') && hints.person === 'strong')
    return hasOwnFacts(company) ? ['person', 'company'] : ['person']
  const isOnlyPerson = like.length === 1 && like[0] === 'person' && hints.company === 'none'
  if (isOnlyPerson && hasIdentity('person', person) && hasOwnFacts(company)) return ['person', 'company']
  return like.length < 2 ? like : likelier
}

/**
 * Whether columns and values alone say what a table holds, whatever it is called: addresses of which hardly any is twice beside
 * names and a company, or sites beside names and a fact.
 */
function showsKind(kind: SourceKind, table: UnclassifiedTable): boolean {
  const { person, company } = table
  if (!haveOwnAddress(kind, table)) return false
  return kind === 'person'
    ? isNamedPerson(person, company)
    : company.has('name') &&
        (['industry', 'employees', 'employee_range', 'city', 'country', 'revenue'] as const).some((role) =>
          company.has(role),
        )
}

/** Whether most rows have an e-mail address, or a site, of their own. Pure. */
export function haveOwnAddress(kind: SourceKind, table: UnclassifiedTable): boolean {
  const values = table[kind].get(kind === 'person' ? 'email' : 'domain')?.values ?? []
  const isDistinct = new Set(values.map((one) => one.toLowerCase())).size > values.length * MIN_DISTINCT
  return isDistinct && values.length >= MIN_FILLED && values.length >= table.sampled * MIN_SHARE
}

/** A person's title beside a profile; a name beside that of a company, as in a form of a web site; or two facts of a person. */
const isNamedPerson = (person: RoleFields, company: RoleFields): boolean => {
  if (person.has('title') && person.has('profile')) return true
  if (!NAME_ROLES.some((role) => person.has(role))) return false
  const facts = (['company_name', 'title', 'phone', 'profile'] as const).filter((role) => person.has(role))
  return (
    person.has('company_name') || (facts.length > 1 && (person.has('last_name') || !company.has('domain')))
  )
}
const NAME_ROLES = ['first_name', 'last_name', 'name'] as const

const MIN_DISTINCT = 0.7
const MIN_FILLED = 20
const MIN_SHARE = 0.3

/** A row without any of these links other rows. */
const OWN_ROLES: Readonly<Record<SourceKind, readonly ColumnRole[]>> = {
  person: ['email', 'profile', 'first_name', 'last_name', 'name'],
  company: ['domain', 'name'],
}

/** What only one kind has: a person's names, or a website with an industry or a size. */
const hasIdentity = (kind: SourceKind, roleFields: RoleFields): boolean =>
  kind === 'person'
    ? roleFields.has('last_name') && (roleFields.has('email') || roleFields.has('profile'))
    : roleFields.has('domain') && (roleFields.has('industry') || roleFields.has('employees'))

/** A person's row may also hold facts about the company, as a lead does. Its site may be in another table. */
function hasOwnFacts(company: RoleFields): boolean {
  const facts = (['domain', 'industry', 'employees', 'revenue'] as const).filter((role) => company.has(role))
  return facts.length >= 2
}

/** Table names that are strong or weak evidence for a kind. */
const STRONG_NAMES: Readonly<Record<SourceKind, ReadonlySet<string>>> = {
  person: toWordSet('person contact lead prospect individual candidate member attendee people'),
  company: toWordSet('company account organization org firm business employer'),
}
const WEAK_NAMES: Readonly<Record<SourceKind, ReadonlySet<string>>> = {
  person: toWordSet(
    'partner customer client party user subscriber visitor speaker delegate exhibitor registrant donor volunteer investor participant profile record entity request registration application',
  ),
  company: toWordSet('partner customer client party brand merchant record entity'),
}

/** A table with this many points is taken for the kind. */
const MIN_SCORE = 4

type NameHint = 'strong' | 'weak' | 'none'

/** How much the name of a table says that its rows are of a kind. Pure. */
export function nameHint(kind: SourceKind, table: string): NameHint {
  const head = headNoun(table)
  if (STRONG_NAMES[kind].has(head)) return 'strong'
  return WEAK_NAMES[kind].has(head) ? 'weak' : 'none'
}

/** How strongly the name and the columns of a table say that its rows are of the kind. Pure. */
export function scoreTable(kind: SourceKind, table: string, roles: Iterable<ColumnRole>): number {
  const points = { strong: 3, weak: 1, none: 0 }[nameHint(kind, table)]
  return [...roles].reduce((sum, role) => sum + kindPoints(kind, role), points)
}
