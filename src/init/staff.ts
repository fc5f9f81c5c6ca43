import { type CandidateField, fieldSql } from './fields.ts'
import { headNoun, singularize, splitIdentifier, toWordSet } from './words.ts'
import { type ForeignKey, type IntrospectedTable, type TableOverview } from './introspect.ts'
import { type TableRelation, joinCondition } from './relations.ts'
import { labelsSql, listKnownLabels } from './row-filters.ts'

const STAFF_NOUNS = toWordSet('owner employee employees staff worker colleague agent operator salesperson')
/** Whose members use the software. */
const TEAM_WORDS = toWordSet('workspace team tenant organization account project company')

/** Whether a table's name says that its rows are the users' own staff. */
export function isStaffName(table: string): boolean {
  const words = splitIdentifier(table).map(singularize)
  const [before = '', last = ''] = words.slice(-2)
  return STAFF_NOUNS.has(headNoun(table)) || (last === 'member' && TEAM_WORDS.has(before))
}

/** Whether a table puts people of others on a list: `CampaignMember`, `list_members`. */
export function isMemberList(table: string): boolean {
  const [before = '', last = ''] = splitIdentifier(table).map(singularize).slice(-2)
  return /^(?:member|membership|recipient|attendee)$/.test(last) && LIST_NOUNS.has(before)
}
const LIST_NOUNS = toWordSet('campaign list group segment audience mailing event')

/** Columns used to sign in: the rows are users of an application. */
export const hasLoginColumns = (columns: readonly string[]): boolean =>
  columns.some((column) => splitIdentifier(column).some((word) => LOGIN_WORDS.has(singularize(word))))

/** A login to a portal is a customer's. */
const isPortal = (table: string): boolean => splitIdentifier(table).some((word) => PORTAL_WORDS.has(word))

const LOGIN_WORDS = toWordSet('password passwd pwd passhash crypted')

/** A column that names who works on a row: it refers to staff. */
const isOwnerColumn = (column: string): boolean => {
  const words = splitIdentifier(column).filter((word) => word !== 'id')
  return (
    words.some((word) => OWNER_WORDS.has(word)) ||
    /^(?:created|updated|modified|deleted) by(?: user)?$/.test(words.join(' '))
  )
}
const OWNER_WORDS = toWordSet('owner assigned assignee author salesperson responsible agent rep sales user')

/**
 * The tables of the users' own staff: by name, by login columns, or because other tables name them as owner, assignee
 * or author. Pure.
 */
export function findStaffTables(
  overviews: readonly TableOverview[],
  references: readonly Pick<ForeignKey, 'from' | 'to' | 'columns'>[],
): ReadonlySet<string> {
  const owned = new Map<string, Set<string>>()
  for (const { from, to, columns } of references)
    if (from !== to && columns.some(isOwnerColumn)) owned.set(to, (owned.get(to) ?? new Set()).add(from))
  return new Set(
    overviews
      .filter(
        (one) =>
          isStaffName(one.name) ||
          (headNoun(one.name) === 'user' && !isPortal(one.name)) ||
          (hasLoginColumns(one.columns) && !PORTAL_NOUNS.has(headNoun(one.name)) && !isPortal(one.name)) ||
          ((owned.get(one.sqlName)?.size ?? 0) >= 2 && !PARTY_NOUNS.has(headNoun(one.name))),
      )
      .map(({ sqlName }) => sqlName),
  )
}

/**
 * Whether most rows of a table of users refer to a partner or an account of the business, of which there are many: then they
 * are contacts, some of whom may sign in. Pure.
 */
export function belongToCompanies(users: IntrospectedTable, relations: readonly TableRelation[]): boolean {
  if (isStaffName(users.table.name)) return false
  return relations.some(({ from, to, columns, type }) => {
    if (from.table.sql !== users.table.sql || to === from || type !== null) return false
    const isParty = splitIdentifier(to.table.name)
      .map(singularize)
      .some((word) => COMPANY_NOUNS.has(word))
    const { values } = from.fields.find(({ name, path }) => name === columns[0] && path.length === 0) ?? {
      values: [],
    }
    const isMost = values.length * 2 >= from.sampled && from.sampled >= 20
    return isParty && isMost && new Set(values).size * 4 >= values.length
  })
}
const COMPANY_NOUNS = toWordSet('partner customer company supplier client')

/** With a password, these sign in to a portal for customers. */
const PORTAL_NOUNS = toWordSet('contact lead prospect')

/** Rows of these tables own other rows as customers do. */
const PARTY_NOUNS = toWordSet(
  'person contact lead customer client prospect company account organization partner',
)

const CUSTOMER_WORDS = toWordSet(
  'customer client contact lead requester requestor visitor guest subscriber external portal person',
)
const isCustomerLabel = (label: string): boolean =>
  splitIdentifier(label).some((word) => CUSTOMER_WORDS.has(singularize(word))) || /end.?user/i.test(label)

const KIND_WORDS = toWordSet('role roles type kind')

/**
 * A table of users may hold customers beside staff: the condition for customers, by a type or role column or a table
 * of roles. Null if nothing separates them. Pure.
 */
export function customerCondition(
  table: IntrospectedTable,
  relations: readonly TableRelation[],
): string | null {
  for (const field of table.fields) {
    if (field.path.length > 0 || !KIND_WORDS.has(field.words.at(-1) ?? '')) continue
    const labels = listKnownLabels(field, table.checkLabels)
    const customers = labels.filter(isCustomerLabel)
    if (customers.length > 0 && customers.length < labels.length)
      return labelsSql(fieldSql(field, 't'), customers)
  }
  for (const link of relations.filter(({ to }) => to.table.sql === table.table.sql))
    for (const toRole of relations.filter((one) => one.from === link.from && one !== link)) {
      const condition = linkedRoleSql(link, toRole)
      if (condition !== null) return condition
    }
  return null
}

/** The label column of a table of roles, and its labels. */
function roleLabels({ to }: TableRelation): { field: CandidateField; customers: string[] } | null {
  if (!KIND_WORDS.has(headNoun(to.table.name))) return null
  for (const field of to.fields) {
    if (field.fit.kind !== 'text') continue
    const labels = [...new Set(field.values)]
    const customers = labels.filter(isCustomerLabel)
    if (customers.length > 0 && customers.length < labels.length) return { field, customers }
  }
  return null
}

function linkedRoleSql(toUser: TableRelation, toRole: TableRelation): string | null {
  const found = roleLabels(toRole)
  if (found === null) return null
  const isCustomer = labelsSql(fieldSql(found.field, 'r'), found.customers)
  const roles = (condition: string): string =>
    `exists (select from ${toUser.from.sqlName} l join ${toRole.to.sqlName} r on ${joinCondition(toRole, 'l', 'r')} where ${joinCondition(toUser, 'l', 't')} and ${condition})`
  return `${roles(isCustomer)}\nand not ${roles(labelsSql(fieldSql(found.field, 'r'), found.customers, true))}`
}

/** Conditions that leave out rows which a table of staff or tenants refers to as its own. Pure. */
export function ownRecordConditions(
  table: IntrospectedTable,
  relations: readonly TableRelation[],
  isOurs: (table: IntrospectedTable) => boolean,
): string[] {
  return relations.flatMap((relation) => {
    const { from, to, type, columns } = relation
    const isOneToOne = columns.some((column) => splitIdentifier(column).some((word) => SELF_WORDS.has(word)))
    if (to.table.sql !== table.table.sql || from === to || type !== null || !isOneToOne || !isOurs(from))
      return []
    return [`not exists (select from ${from.sqlName} s where ${joinCondition(relation, 's', 't')})`]
  })
}

/** A user's own entry among the contacts, unlike the company that a user belongs to. */
const SELF_WORDS = toWordSet('partner contact person party profile')

/** A user with such a flag is a customer who signs in. */
const PORTAL_WORDS = toWordSet('share portal external customer web')
