import type { SourceKind } from '../domain/mapping.ts'
import { quoteIfNeeded } from '../sources/quote.ts'
import type { ClassifiedSchema, ClassifiedTable } from './classify.ts'
import { fieldSql } from './fields.ts'
import { type RowFlag, isDate, isMostlyBlank, labelsSql } from './flag-sql.ts'
import { listKnownLabels, meaningOf } from './row-filters.ts'
import { readFlags, roleColumns } from './flags.ts'
import { type Meaning, isAddressTable, isSuppressionName, sayingOf } from './meanings.ts'
import { isStaffName } from './staff.ts'
import { hasSameKey } from './relations.ts'
import { HARMLESS_TABLES } from './harmless.ts'
import { type RowWay, waysTo } from './ways.ts'
import { headNoun, singularize, splitIdentifier, toWordSet } from './words.ts'

/**
 * What other tables say of a table's rows: what they refer to, their labels and tags, and lists of people. Pure.
 * @param address the expression of a person's e-mail address, or of a company's site
 * @param employer the company of a person
 */
export function relatedFlags(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  kind: SourceKind,
  address: string | null = null,
  employer: RowWay | null = null,
): RowFlag[] {
  // Of a table that each schema has, that of the row's own: another tenant's list says nothing.
  const isForeign = ({ table }: ClassifiedTable): boolean =>
    table.schema !== row.table.schema &&
    schema.tables.some((one) => one.table.schema === row.table.schema && one.table.name === table.name)
  return schema.tables.flatMap((side) => {
    if (side === row || isForeign(side)) return []
    const ways = waysTo(schema, row, side)
    return [
      ...(kind === 'person' || isHostList(side) ? listedFlags(side, row, ways, kind, address) : []),
      ...ways.flatMap((way) => [
        ...labelFlags(way, kind),
        ...ownerFlags(way, kind, way.relation === employer?.relation),
      ]),
    ]
  })
}

const notExists = ({ from, where }: Pick<RowWay, 'from' | 'where'>, out: readonly string[]): string =>
  `not exists (select from ${from} where ${[...where, ...out].join(' and ')})`

/** What concerns all rows that refer to a row. Whether a deleted company's people count is a question. */
const REASONS: ReadonlySet<Meaning | null> = new Set(['objection', 'private', 'staff'])
const ENDS: ReadonlySet<Meaning> = new Set(['gone', 'test'])
const TENANT_REASONS: ReadonlySet<Meaning | null> = new Set(['objection', 'test', 'gone', 'alive'])

/** What the rows that a row refers to say of it: its company, its tenant, what it wants, its event. */
function ownerFlags(way: RowWay, kind: SourceKind, isEmployer: boolean): RowFlag[] {
  const { side, by, relation, link } = way
  const { table, kinds, mirrored, isTenants } = side
  // What has the key of the row is a part of it: then it is gone with it.
  const isSameRow = hasSameKey(relation)
  const isOwner = by === 'own key' ? relation.type === null : by === 'its key' && isSameRow
  if ((!isEmployer && !isOwner) || side.isStaff) return []
  // Of another's people, only what the row's own person wants: `Individual`.
  const isOnlySure = isEmployer ? link !== null || relation.type !== null : kinds.length > 0 && !isTenants
  if (isOnlySure && !isEmployer && (kind === 'company' || headNoun(table.name) !== 'person')) return []
  const reasons = isTenants ? TENANT_REASONS : REASONS
  const known = new Set([...roleColumns(side), ...side.references, ...table.primaryKey])
  const isCompany = [...kinds, ...mirrored].includes('company') || isTenants
  const context = isCompany ? 'company' : kind
  return readFlags(side, 'e', context).flatMap(({ out, ...flag }) => {
    const { meaning, column } = flag
    const isSure = flag.isSure && (isSameRow || reasons.has(meaning))
    const isOpen =
      meaning === null
        ? !known.has(column)
        : !flag.isSure || (isEmployer ? ENDS.has(meaning) : kinds.length === 0 && meaning !== 'alive')
    if (!isSure && (isOnlySure || !isOpen)) return []
    const when = `${table.name}: ${flag.when}`
    const keep = notExists(way, [out])
    return [{ ...flag, column: `${table.name}.${column}`, when, keep, isSure, isOfOther: true }]
  })
}

const LIST_WORDS = toWordSet(
  'status state stage type category kind class group segment tag list rating role lifecycle label source',
)
const TAG_WORDS = toWordSet('tag label')
const STATE_WORDS = toWordSet('status state stage')
const LABEL_NAMES = /(?:^| )(?:name|label|title|tag|slug|description|list|group|value|code)$/
const MAX_LIST_ROWS = 100

/** What the labels say that a row has by its own key, in a table of its tags, or through a link table. */
function labelFlags(way: RowWay, kind: SourceKind): RowFlag[] {
  const { side, by, relation, link } = way
  const { table, kinds, isStaff, isTenants } = side
  const isTag = by !== 'own key'
  const names = [table.name, link?.table.name ?? '', ...(isTag ? [] : relation.columns)]
  const words = names.flatMap(splitIdentifier).map(singularize)
  const isList = words.some((word) => (by === 'its key' ? TAG_WORDS : LIST_WORDS).has(word))
  // What a link table of keys alone leads to is a list, whatever it is called.
  const isShort = (side.rows ?? 0) <= MAX_LIST_ROWS
  const isLinked = link !== null && link.table.columns.length <= 8 && isShort
  const isAddress = link !== null && isAddressTable(link.table.name)
  if (!(isList || isLinked) || isAddress || kinds.length > 0 || isStaff || isTenants) return []
  if (!isTag && (relation.type !== null || !isShort)) return []
  const isState = words.some((word) => STATE_WORDS.has(word))
  const countUnderstood = (flags: readonly RowFlag[]): number =>
    flags.filter(({ meaning }) => meaning !== null).length
  const [best = []] = side.fields
    .flatMap((field) => {
      const isTranslated = field.path.length === 1 && /^jsonb?$/.test(field.fit.kind)
      const name = isTranslated ? splitIdentifier(field.column.name) : field.words
      const isName = isTranslated || (field.fit.kind === 'text' && field.path.length === 0)
      if (!isName || !LABEL_NAMES.test(name.join(' '))) return []
      // Read as if the row had the label itself, in a column named as the list.
      const column = { ...field, name: table.name, words: isTag && !isState ? ['tag'] : words }
      const labels = [...new Set(field.values)]
      return [readFlags({ ...side, fields: [{ ...column, labels }] }, 'e', kind)]
    })
    .toSorted((a, b) => countUnderstood(b) - countUnderstood(a))
  return best.map(({ out, ...flag }) => ({ ...flag, keep: notExists(way, [out]), isTag }))
}

/** SQL: the rows of a table that have the address of a person, or the host of that, of their company's site or of a company's. */
function sameAddress(
  side: ClassifiedTable,
  row: ClassifiedTable,
  kind: SourceKind,
  address: string,
): Pick<RowWay, 'from' | 'where'> | null {
  const { address: field, sqlName, company, table } = side
  const own = `lower(btrim(${address}))`
  const sameAs = kind === 'person' && field && `lower(btrim(${fieldSql(field, 'e')})) = ${own}`
  // A list has hosts, too: in the same column, or in another.
  const hasHosts = field?.values.some((value) => !value.includes('@') && value.includes('.')) === true
  const host = isHostList(side) && (hasHosts ? field : company.get('domain'))
  const site = kind === 'person' ? row.person.get('company_domain') : undefined
  const hosts = [
    kind === 'person' ? `split_part(${own}, '@', 2)` : hostSql(address),
    ...(site ? [hostSql(fieldSql(site, 't'))] : []),
  ]
  const sameHost =
    host && `lower(btrim(${fieldSql(host, 'e')})) ${site ? `in (${hosts.join(', ')})` : `= ${hosts[0]}`}`
  const either = [sameAs, sameHost].filter((one) => typeof one === 'string')
  const [first = null] = either.length > 1 ? [`(${either.join(' or ')})`] : either
  // A list of one customer of the software says nothing of another's rows.
  const tenant = table.columns.find(({ name }) => name === row.tenant?.column)
  const column = tenant && quoteIfNeeded(tenant.name)
  const ownTenant = column ? [`(e.${column} is null or e.${column} = t.${column})`] : []
  return first === null ? null : { from: `${sqlName} e`, where: [first, ...ownTenant] }
}

/** Whether the hosts in a table are what it lists: those of competitors, of free mail, or not to be contacted. */
const isHostList = ({ table, company }: ClassifiedTable): boolean =>
  isSuppressionName(table.name) || (table.columns.length <= 4 && company.has('domain'))

/** SQL: the host in a URL. */
const hostSql = (url: string): string =>
  `regexp_replace(lower(btrim(${url})), '^(?:[a-z]+://)?(?:www[.])?([^/:?#]*).*$', '\\1')`

const CONSENT_TABLES = toWordSet(
  'subscription subscriber interest consent preference newsletter permission gdpr privacy optin request',
)
const HARMLESS_TABLE_WORDS = toWordSet(HARMLESS_TABLES)

/**
 * What it says of a row that another table has a row about it, by key or by address: that they objected, are staff, or
 * perhaps something else against them.
 */
function listedFlags(
  side: ClassifiedTable,
  row: ClassifiedTable,
  ways: readonly RowWay[],
  kind: SourceKind,
  address: string | null,
): RowFlag[] {
  const { table, kinds, sqlName, isStaff, isTenants } = side
  const words = splitIdentifier(table.name).map(singularize)
  const byAddress = address === null ? null : sameAddress(side, row, kind, address)
  const first = ways.find(({ by }) => by === 'its key' || (by === 'link' && isAddressTable(table.name)))
  const found = isStaff ? byAddress : (first ?? byAddress)
  if (found === null) return []
  const listed = (out: readonly string[], meaning: Meaning | null, isSure: boolean): RowFlag => {
    const when = `it is listed in ${sqlName}`
    return { column: table.name, when, keep: notExists(found, out), meaning, isSure }
  }
  if (isSuppressionName(table.name)) {
    // When it was suppressed is what the list is about; a day to come ends it.
    const isWhen = ({ column, out }: RowFlag & { readonly out: string }): boolean =>
      !out.endsWith('<= now()') &&
      side.fields.some((one) => one.name === column && isDate(one.fit.kind) && !isMostlyBlank(one, side))
    const ended = readFlags(side, 'e', 'link').filter(
      (one) => one.isSure && one.meaning !== 'objection' && !isWhen(one),
    )
    const still = ended.map(({ keep }) => keep)
    // Of a company it may be its people who objected.
    return [listed(still, 'objection', kind === 'person')]
  }
  if (isStaff) return [listed([], 'staff', isStaffName(table.name))]
  if (kinds.length > 0) return []
  const isConsent = words.some((word) => CONSENT_TABLES.has(word))
  const scopes = isConsent ? consentScopes(side) : []
  const flags = readFlags(side, 'e', 'person').flatMap(({ meaning, out, isSure, isLabel }) => {
    const isRefusal = meaning === 'consent' || (isLabel && meaning === 'gone')
    if (meaning !== 'objection' && !(isConsent && isRefusal)) return []
    // Who refuses one purpose may agree to another: which of them counts is a question.
    const scoped = scopes.map(({ said, sql }) => {
      const one = listed([sql, out], 'objection', false)
      return { ...one, when: `${one.when} for ${said}` }
    })
    return scoped.length > 0 ? scoped : [listed([out], 'objection', isSure)]
  })
  const said = sayingOf(words)?.meaning
  if (flags.length === 0 && (said === 'gone' || said === 'test')) return [listed([], said, false)]
  // Of rows of several tables, this one's are not all that it lists.
  const isHarmless =
    isTenants || first?.link || first?.relation.type || words.some((word) => HARMLESS_TABLE_WORDS.has(word))
  return flags.length > 0 || isHarmless ? flags : [{ ...listed([], null, false), isOfOther: true }]
}

/** What each row of a table of consents is about: a purpose or a channel, of several. */
const consentScopes = ({
  fields,
}: ClassifiedTable): Array<{ readonly said: string; readonly sql: string }> => {
  const scope = fields.find(({ words, path }) => path.length === 0 && SCOPE.test(words.join(' ')))
  const labels = scope ? listKnownLabels(scope) : []
  return scope && labels.length > 1
    ? labels.map((one) => ({ said: meaningOf(scope, one), sql: labelsSql(fieldSql(scope, 'e'), [one]) }))
    : []
}
const SCOPE = /\b(?:purpose|channel|topic|medium)(?: code)?$/
