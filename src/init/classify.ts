import type { SourceKind } from '../domain/mapping.ts'
import { COMPANY_ROLES, PERSON_ROLES, type RoleFields, assignRoles } from './assign-roles.ts'
import type { TableRelation } from './relations.ts'
import type { ColumnRole } from './roles.ts'
import { type PartyTypeFilter, findPartyTypeFilter } from './row-filters.ts'
import type { IntrospectedTable } from './introspect.ts'
import type { LookupColumn } from './lookup-tables.ts'
import {
  customerCondition,
  hasLoginColumns,
  isMemberList,
  isStaffName,
  ownRecordConditions,
  ownUserConditions,
  sharedKeyConditions,
} from './staff.ts'
import type { TenantChoice } from './tenants.ts'
import { headNoun, splitIdentifier, toWordSet } from './words.ts'

/** A table with the roles of its columns, and whether its rows are people or companies. */
export interface ClassifiedTable extends IntrospectedTable {
  /** Columns that hold the keys of other rows. */
  readonly references: ReadonlySet<string>
  readonly person: RoleFields
  readonly company: RoleFields
  /** Columns that refer to lists of labels, by the kind of source that fills them. */
  readonly lookups: Readonly<Record<SourceKind, readonly LookupColumn[]>>
  /** The tenant to propose, if the rows belong to several. */
  readonly tenant: TenantChoice | null
  /** Conditions from other tables: roles, own records of staff, the row of which this one is a part. */
  readonly conditions: readonly string[]
  /** Both kinds if the table holds both; empty if it holds neither. */
  readonly kinds: readonly SourceKind[]
  /** Whether its rows are the users' own staff, or users of their software. */
  readonly isStaff: boolean
  /** Whether its rows are the tenants of the software. */
  readonly isTenants: boolean
  /** The same as staff, though some of them may be customers, or it only adds to a table of users. */
  readonly isUsers: boolean
  /** Conditions that separate people from companies, if the table has a column for it. */
  readonly partyType: PartyTypeFilter | null
  /** Why a table that looks suitable is not proposed; null if it does not look suitable, or is proposed. */
  readonly rejection: string | null
  /** Whether the user named it. */
  readonly isNamed: boolean
  /** The table looks only a little suitable: reported if nothing else was found. */
  readonly isUncertain: boolean
}

export interface ClassifiedSchema {
  readonly tables: readonly ClassifiedTable[]
  readonly relations: readonly TableRelation[]
}

/** What is known of a database beside the tables themselves. */
interface ClassifyContext {
  readonly relations: readonly TableRelation[]
  /** Whether the user named the table: it is then classified however weak the evidence. */
  readonly isNamed: (table: IntrospectedTable) => boolean
  readonly isStaff: (table: IntrospectedTable) => boolean
  readonly isTenantTable: (table: IntrospectedTable) => boolean
}

/** Classifies each table. Pure. */
export function classifyTables(
  tables: readonly IntrospectedTable[],
  context: ClassifyContext,
): ClassifiedSchema {
  return { tables: tables.map((one) => classifyTable(one, context)), relations: context.relations }
}

function classifyTable(surveyed: IntrospectedTable, context: ClassifyContext): ClassifiedTable {
  const { table } = surveyed
  const { relations } = context
  const isNamed = context.isNamed(surveyed)
  const references = new Set(
    relations.filter((one) => one.from.table.sql === table.sql).flatMap((one) => one.columns),
  )
  const allOfPerson = assignRoles(surveyed, PERSON_ROLES, references)
  const company = assignRoles(surveyed, COMPANY_ROLES, references)
  const partyType = findPartyTypeFilter(surveyed, {
    person: allOfPerson.get('first_name') ?? allOfPerson.get('last_name'),
    company: allOfPerson.get('company_name') ?? company.get('name'),
  })
  const isOfCompany = (role: ColumnRole): boolean => role === 'company_name' && partyType?.isByNames === true
  const person = new Map([...allOfPerson].filter(([role]) => !isOfCompany(role)))
  const classified = { ...surveyed, references, person, company, partyType }
  const customers = context.isStaff(surveyed) ? customerCondition(surveyed, relations) : null
  const kinds = findKinds(classified, isNamed).filter((kind) => customers === null || kind === 'person')
  const isUncertain = kinds.length === 0 && isNearMiss(classified)
  const objection =
    kinds.length > 0 || isUncertain ? findRejection(classified, { ...context, isNamed, customers }) : null
  const isOurs = (one: IntrospectedTable): boolean => context.isStaff(one) || context.isTenantTable(one)
  return {
    ...classified,
    lookups: { person: [], company: [] },
    isStaff: context.isStaff(surveyed) && customers === null,
    isTenants: context.isTenantTable(surveyed),
    isUsers: context.isStaff(surveyed) || isProfileOfUsers(surveyed, context),
    tenant: null,
    conditions: [
      ...(customers === null ? [] : [customers]),
      ...sharedKeyConditions(surveyed, relations),
      ...ownRecordConditions(surveyed, relations, isOurs),
      ...ownUserConditions(surveyed, relations, context.isStaff),
    ],
    isUncertain,
    isNamed,
    kinds: objection === null ? kinds : [],
    rejection: objection ?? (isUncertain ? UNCERTAIN_REASON : null),
  }
}

/** Beside a table of contacts, those who sign in or applied for a job are none of them. Pure. */
export function setAside(tables: readonly ClassifiedTable[]): ClassifiedTable[] {
  const reasonOf = ({ table, isUsers }: ClassifiedTable): string | null => {
    if (isUsers) return 'its rows sign in to your software; there is a table of contacts beside it'
    const isApplicants = /^(?:candidate|applicant)$/.test(headNoun(table.name))
    return isApplicants ? 'its rows applied for a job; there is a table of contacts beside it' : null
  }
  const hasPeople = tables.some((one) => one.kinds.includes('person') && reasonOf(one) === null)
  return tables.map((one) => {
    const reason = one.kinds.length > 0 && hasPeople && !one.isNamed ? reasonOf(one) : null
    return reason === null ? one : { ...one, kinds: [], rejection: reason }
  })
}

/** A table with the key of a table of users: `profiles` beside `auth.users`. */
const isProfileOfUsers = ({ table }: IntrospectedTable, { relations, isStaff }: ClassifyContext): boolean =>
  relations.some(
    ({ from, to, columns }) =>
      from.table.sql === table.sql && columns.join() === table.primaryKey.join() && isStaff(to),
  )

const UNCERTAIN_REASON = 'neither its name nor its columns show clearly that its rows are people or companies'

const isNearMiss = ({
  table,
  person,
  company,
}: Pick<ClassifiedTable, 'table' | 'person' | 'company'>): boolean =>
  Math.max(scoreTable('person', table.name, person), scoreTable('company', table.name, company)) >=
  MIN_SCORE - 1

type UnclassifiedTable = Pick<ClassifiedTable, 'table' | 'person' | 'company' | 'partyType' | 'sampled'>

function findKinds(surveyed: UnclassifiedTable, isNamed: boolean): SourceKind[] {
  const { table, person, company, partyType } = surveyed
  const roleFields = { person, company }
  const hints = { person: nameHint('person', table.name), company: nameHint('company', table.name) }
  const scores = {
    person: scoreTable('person', table.name, person),
    company: scoreTable('company', table.name, company),
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
  if (like.length < 2) return like
  if (hints.company === 'strong') return ['company']
  return likelier
}

/**
 * Whether columns and values alone say what a table holds, whatever it is called: addresses of which hardly any is twice beside
 * names and a company, or sites beside names and a fact. What has a price is a sale.
 */
function showsKind(kind: SourceKind, { table, person, company, sampled }: UnclassifiedTable): boolean {
  const fields = kind === 'person' ? person : company
  const values = fields.get(kind === 'person' ? 'email' : 'domain')?.values ?? []
  const isDistinct = new Set(values.map((one) => one.toLowerCase())).size > values.length * MIN_DISTINCT
  if (values.length < MIN_FILLED || values.length < sampled * MIN_SHARE || !isDistinct) return false
  if (table.columns.some(({ name }) => splitIdentifier(name).some((word) => SALE_WORDS.has(word))))
    return false
  return kind === 'person'
    ? (fields.has('last_name') || fields.has('name')) &&
        (['company_name', 'title', 'phone', 'profile'] as const).filter((role) => fields.has(role)).length > 1
    : fields.has('name') &&
        (['industry', 'employees', 'employee_range', 'city', 'country', 'revenue'] as const).some((role) =>
          fields.has(role),
        )
}

const MIN_DISTINCT = 0.7
const MIN_FILLED = 20
const MIN_SHARE = 0.3
const SALE_WORDS = toWordSet(
  'total subtotal price amount quantity invoice discount vat paid shipping checkout',
)

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

function findRejection(
  surveyed: Pick<ClassifiedTable, keyof IntrospectedTable>,
  context: { isNamed: boolean; customers: string | null } & Pick<
    ClassifyContext,
    'isStaff' | 'isTenantTable'
  >,
): string | null {
  const { table } = surveyed
  if (table.kind !== 'table') return `a ${table.kind}: rows can only be locked in a table`
  if (table.uniqueKeys.length === 0)
    return 'it has no primary key and no unique index: its rows cannot be identified'
  if (!table.columns.some((column) => column.canUpdate)) return 'this role may not update it'
  // The user knows what a named table holds.
  if (context.isNamed) return null
  const aside = splitIdentifier(table.schema).find((word) => ASIDE_SCHEMAS.has(word))
  if (aside !== undefined) return `its schema holds other content: '${aside}'`
  const past = findHistoryWord(table.name)
  if (past !== null) return `its name indicates other content: '${past}'`
  if (isMemberList(table.name)) return 'its rows put people of other tables on a list'
  if (context.isTenantTable(surveyed))
    return 'its rows are the tenants of your software: other tables belong to them'
  if (context.customers !== null || !context.isStaff(surveyed)) return null
  if (isStaffName(table.name)) return 'its name indicates your own staff'
  return hasLoginColumns(table.columns.map((column) => column.name))
    ? 'it holds passwords, so its rows are application users'
    : 'its rows own those of other tables, so they are your own staff'
}

/** Relations from one table to another. */
export function relationsBetween(
  { relations }: ClassifiedSchema,
  from: IntrospectedTable,
  to: IntrospectedTable,
): readonly TableRelation[] {
  const keyOf = (one: IntrospectedTable, other: IntrospectedTable): string =>
    `${one.table.sql} ${other.table.sql}`
  const index =
    BETWEEN.get(relations) ?? Map.groupBy(relations, (relation) => keyOf(relation.from, relation.to))
  BETWEEN.set(relations, index)
  return index.get(keyOf(from, to)) ?? []
}

/** Relations from one table to any other. */
export function relationsFrom(
  { relations }: ClassifiedSchema,
  from: IntrospectedTable,
): readonly TableRelation[] {
  const index = FROM.get(relations) ?? Map.groupBy(relations, (relation) => relation.from.table.sql)
  FROM.set(relations, index)
  return index.get(from.table.sql) ?? []
}

const FROM = new WeakMap<readonly TableRelation[], ReadonlyMap<string, readonly TableRelation[]>>()
const BETWEEN = new WeakMap<readonly TableRelation[], ReadonlyMap<string, readonly TableRelation[]>>()

/** Table names that are strong or weak evidence for a kind. */
const STRONG_NAMES: Readonly<Record<SourceKind, ReadonlySet<string>>> = {
  person: toWordSet('person contact lead prospect individual candidate member attendee people'),
  company: toWordSet('company account organization org firm business employer'),
}
const WEAK_NAMES: Readonly<Record<SourceKind, ReadonlySet<string>>> = {
  person: toWordSet(
    'partner customer client party user subscriber speaker delegate exhibitor registrant donor volunteer investor participant profile record entity request registration application',
  ),
  company: toWordSet('partner customer client party vendor supplier brand merchant record entity'),
}

/** Points that each role adds for a kind. */
const ROLE_POINTS: Readonly<Record<SourceKind, Readonly<Partial<Record<ColumnRole, number>>>>> = {
  person: {
    first_name: 1,
    last_name: 2,
    name: 1,
    email: 1,
    profile: 2,
    title: 1,
    seniority: 2,
    department: 1,
    company_name: 1,
  },
  company: {
    domain: 2,
    name: 1,
    industry: 2,
    sub_industry: 1,
    employees: 2,
    revenue: 1,
    founded: 1,
    technologies: 1,
    legal_name: 1,
    twitter: 1,
  },
}

/** A table with this many points is taken for the kind. */
const MIN_SCORE = 4

type NameHint = 'strong' | 'weak' | 'none'

export function nameHint(kind: SourceKind, table: string): NameHint {
  const head = headNoun(table)
  if (STRONG_NAMES[kind].has(head)) return 'strong'
  return WEAK_NAMES[kind].has(head) ? 'weak' : 'none'
}

/** How strongly the name and the columns of a table say that its rows are of the kind. Pure. */
function scoreTable(kind: SourceKind, table: string, roleFields: RoleFields): number {
  const points = { strong: 3, weak: 1, none: 0 }[nameHint(kind, table)]
  return [...roleFields.keys()].reduce((sum, role) => sum + (ROLE_POINTS[kind][role] ?? 0), points)
}

const HISTORY_WORDS = toWordSet(
  `historical legacy deprecated shadow log logs audit audits history histories archive archived backup backups bak tmp temp staging stage old copy version
   versions event events dim fct fact facts stg mart marts snapshot snapshots queue queues migration migrations session sessions import imports export exports test`,
)

const ASIDE_SCHEMAS = toWordSet('test sandbox staging template backup archived')

/** The word in a table's name that says it holds history, copies or temporary data; null if there is none. */
export const findHistoryWord = (table: string): string | null =>
  // `demo_requests` are requests for one.
  splitIdentifier(table.replace(/demo/i, '')).find((word) => HISTORY_WORDS.has(word)) ?? null

/** The company of a person's row: by its own key, or through the rows of a link table. */
export interface Employer {
  readonly company: ClassifiedTable
  readonly relation: TableRelation
  readonly link?: { readonly table: ClassifiedTable; readonly toRow: TableRelation }
}
