import { nameHint } from './kinds.ts'
import { singularize, splitIdentifier, toOwnWords, toWordSet } from './words.ts'
import { type ForeignKey, type TableOverview, overviewSql } from './introspect.ts'
import { isPartName, nameRank } from './relations.ts'
import { type ColumnRole, scoreName } from './roles.ts'
import { hasLoginColumns, isStaffName } from './staff.ts'
import { isSuppressionName } from './table-names.ts'

/** Tables that are read closely. A database has thousands; people and companies are in a few. */
const MAX_TABLES = 60

/** Roles whose names among a table's columns justify a closer look. */
const TELLING_ROLES: readonly ColumnRole[] = [
  'email',
  'profile',
  'first_name',
  'last_name',
  'company_name',
  'title',
  'seniority',
  'department',
  'domain',
  'industry',
  'employees',
  'revenue',
  'city',
]

/**
 * The tables that may hold people, companies, their addresses or links between them, most likely first, then those
 * that they refer to. Reads only names and foreign keys, so a database of thousands of tables is read once. Pure.
 */
export function shortlistTables(
  all: readonly TableOverview[],
  references: readonly ForeignKey[],
): TableOverview[] {
  const scored = all.map((one) => ({ one, points: scoreOverview(one) }))
  const likely = scored.filter(({ points }) => points >= 3).sort((a, b) => b.points - a.points)
  const main = likely.slice(0, MAX_TABLES).map(({ one }) => one)
  const things = new Set(main.map((one) => singularize(splitIdentifier(one.name).at(-1) ?? '')))
  const mainNames = new Set(main.map(overviewSql))
  const links = all
    .filter(
      (one) => !main.includes(one) && (isLinkTable(one, things) || linksByKeys(one, mainNames, references)),
    )
    .slice(0, MAX_TABLES)
  const read = [...main, ...links]
  const others = all.filter((one) => !read.includes(one) && isReferred(one, read, references))
  return [...read, ...others.slice(0, MAX_TABLES)]
}

/** Whether tables that are read refer to this one, by a foreign key or by the name of a column, or it lists opt-outs. */
function isReferred(
  table: TableOverview,
  read: readonly TableOverview[],
  references: readonly ForeignKey[],
): boolean {
  if (
    /content_?types?$/i.test(table.name) ||
    read.some((one) => table.name.startsWith(`${one.name}__`)) ||
    isSuppressionName(table.name) ||
    saysConsent(table) ||
    isStaffName(table.name) ||
    hasLoginColumns(table.columns) ||
    read.some((one) => isPartName(table.name, one.name))
  )
    return true
  const [own, names] = [overviewSql(table), new Set(read.map(overviewSql))]
  if (
    references.some(
      (one) =>
        (one.to === own && names.has(one.from)) ||
        (one.from === own &&
          names.has(one.to) &&
          (isStaffName(table.name) || saysConsent(table) || scoreOverview(table) > 0 || isPart(one, table))),
    )
  )
    return true
  return read.some(({ columns }) =>
    columns.some((column) => {
      const words = splitIdentifier(column)
      if (KEY_WORDS.has(words.at(-1) ?? '') || /^fk_/i.test(column))
        return (
          nameRank(
            words.filter((word) => !KEY_WORDS.has(word)),
            table.name,
          ) > 0
        )
      return LIST_ROLES.some(
        (role) => words.includes(role) && splitIdentifier(table.name).map(singularize).includes(role),
      )
    }),
  )
}

/** A table of consents, subscriptions or preferences. */
const saysConsent = ({ name }: TableOverview): boolean =>
  splitIdentifier(name).some((word) => CONSENT_WORDS.has(singularize(word)))
const CONSENT_WORDS = toWordSet(
  'merged interest consent subscription preference newsletter permission gdpr privacy',
)

/** A table that begins with another table's key holds further columns of that table. */
const isPart = ({ columns }: ForeignKey, table: TableOverview): boolean =>
  columns.length === 1 && columns[0] === table.columns[0]

/** Columns that may hold the key of a list of that name. */
const LIST_ROLES = ['country', 'industry', 'department', 'seniority', 'sector']

/** Points for a table's name and its columns' names. */
function scoreOverview({ name, columns }: Pick<TableOverview, 'name' | 'columns'>): number {
  const own = toOwnWords(name)
  const roles = TELLING_ROLES.filter((role) =>
    columns.some((column) => scoreName(role, splitIdentifier(column), own) >= 60),
  )
  const hints = (['person', 'company'] as const).map(
    (kind) => ({ strong: 3, weak: 2, none: 0 })[nameHint(kind, name)],
  )
  const holdsAddresses = splitIdentifier(name).some((word) => CONTACT_TABLE_WORDS.has(singularize(word)))
    ? 3
    : 0
  const isReachable =
    roles.includes('email') &&
    (['name', 'phone'] as const).some((role) =>
      columns.some((column) => scoreName(role, splitIdentifier(column), own) >= 60),
    )
  return Math.max(...hints) + roles.length + holdsAddresses + Number(isReachable)
}

const CONTACT_TABLE_WORDS = toWordSet(
  'email mail address domain website url location information field mechanism detail channel point communication',
)

/** Two declared keys, one of them to a table found before. */
function linksByKeys(
  table: TableOverview,
  main: ReadonlySet<string>,
  references: readonly ForeignKey[],
): boolean {
  const own = references.filter(({ from }) => from === overviewSql(table))
  return own.length >= 2 && own.some(({ to }) => main.has(to)) && table.columns.length <= 20
}

const KEY_WORDS = toWordSet('id code number key uuid guid sfid')

/** Two foreign keys, one to a table found before: `account_contacts`, `entity_email_address`. */
function isLinkTable({ columns }: TableOverview, things: ReadonlySet<string>): boolean {
  const keys = columns.map(splitIdentifier).filter((words) => words.some((word) => KEY_WORDS.has(word)))
  const names = columns.map((column) => splitIdentifier(column).join(' '))
  const isPolymorphic = names.some((name) => {
    const of = /^(.+) id$/.exec(name)?.[1]
    return (
      of !== undefined &&
      (names.includes(`${of} type`) || (of === 'object' && names.includes('content type id')))
    )
  })
  return (
    (isPolymorphic && columns.length <= 8) ||
    (keys.length >= 2 && keys.some((words) => words.some((word) => things.has(singularize(word)))))
  )
}
