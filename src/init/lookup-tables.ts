import { quoteIfNeeded } from '../sources/quote.ts'
import type { SourceKind } from '../domain/mapping.ts'
import { type Db, query } from '../sources/db.ts'
import { COMPANY_ROLES, PERSON_ROLES } from './assign-roles.ts'
import { exclusionConditions } from './flags.ts'
import { isCountryName, isKnownLabel, mapToLabels } from './label-maps.ts'
import { type CandidateField, fieldSql } from './fields.ts'
import { singularize, splitIdentifier, toOwnWords } from './words.ts'
import type { IntrospectedTable } from './introspect.ts'
import type { TableRelation } from './relations.ts'
import { type ColumnRole, scoreName } from './roles.ts'

/** A column that refers to a table of countries, industries or the like, and how a value finds its row. */
export interface LookupColumn {
  readonly field: CandidateField
  readonly role: ColumnRole
  /** A sub-select over `$value`; null if no column of the table identifies its rows by a name. */
  readonly sql: string | null
  readonly reason: string
  /** From the service's values to the labels of the list, where those are others. */
  readonly map?: Readonly<Record<string, string>>
  readonly isRange?: boolean
}

const LOOKUP_ROLES: Readonly<Record<SourceKind, readonly ColumnRole[]>> = {
  person: ['seniority', 'department'],
  company: ['industry', 'sub_industry', 'employees', 'country', 'state', 'city'],
}

/** Roles that a column of this name may refer to; null if none. Pure. */
function lookupRole(kind: SourceKind, { words }: CandidateField, table: string): ColumnRole | null {
  const own = toOwnWords(table)
  const said = words.filter((word) => !/^(?:id|slug|code|key|number)$/.test(word))
  const scored = LOOKUP_ROLES[kind]
    .map((role) => ({ role, points: scoreName(role, said.map(singularize), own) }))
    .sort((a, b) => b.points - a.points)
  const [best] = scored
  return best !== undefined && best.points >= 70 ? best.role : null
}

/** Longer tables are not lists of labels. */
const MAX_LOOKUP_ROWS = 20_000

/** The columns of a table that refer to lists of labels, each tried in the database. */
export async function findLookupColumns(
  db: Db,
  kind: SourceKind,
  table: IntrospectedTable,
  relations: readonly TableRelation[],
  isParty: (table: IntrospectedTable) => boolean,
): Promise<LookupColumn[]> {
  const found: LookupColumn[] = []
  for (const relation of relations) {
    const [column, ...more] = relation.columns
    const { from, to, type } = relation
    if (from.table.sql !== table.table.sql || more.length > 0 || type !== null || from === to) continue
    const field = table.fields.find((one) => one.name === column && one.path.length === 0)
    const role = field === undefined ? null : lookupRole(kind, field, table.table.name)
    if (field === undefined || role === null || isParty(to) || (to.rows ?? 0) > MAX_LOOKUP_ROWS) continue
    found.push({ field, role, ...(await labelSelect(db, relation, role)) })
  }
  return found
}

const LABEL_NAMES = ['name', 'label', 'title', 'display name', 'full name', 'libelle', 'description', 'value']
const CODE_NAMES = /\b(?:iso|iso2|iso3|alpha|code|cca)\b/

/** The sub-select that finds a row by its label, if labels are unique. */
async function labelSelect(
  db: Db,
  { to, from, targets }: TableRelation,
  role: ColumnRole,
): Promise<Omit<LookupColumn, 'field' | 'role'>> {
  const own = toOwnWords(to.table.name)
  const labels = to.fields
    .filter(
      ({ column, fit, path }) =>
        column.canSelect && (fit.kind === 'text' || (path.length === 1 && isEnglish(path))),
    )
    .map((field) => {
      const words = field.path.length > 0 ? splitIdentifier(field.column.name) : field.words
      const rest = words.filter((word) => !own.has(word))
      return { field, rank: LABEL_NAMES.indexOf((rest.length > 0 ? rest : ['name']).join(' ')) }
    })
    .filter(({ rank, field }) => rank >= 0 && field.values.length > 0)
    .sort((a, b) => a.rank - b.rank)
  const conditions = exclusionConditions(to, 'r', 'company')
  // Lists may be kept by tenant: the row's own list counts.
  const tenant = to.table.columns.find(
    ({ name }) => TENANT_KEY.test(name) && from.table.columns.some((column) => column.name === name),
  )
  const scope = tenant === undefined ? null : quoteIfNeeded(tenant.name)
  const codes = role === 'country' ? to.fields.filter(isCode) : []
  for (const { field } of labels) {
    const label = `lower(${fieldSql(field, 'r')})`
    const [count] = await query<{ rows: number; labels: number }>(
      db,
      `select count(*)::float8 as rows, count(distinct (${label}${scope === null ? '' : `, r.${scope}`}))::float8 as labels
         from ${to.table.sql} r where ${[`${label} is not null`, ...conditions].join(' and ')}`,
    )
    if (count === undefined || count.rows === 0 || count.rows !== count.labels) continue
    const texts = [label, ...codes.map((code) => `lower(${fieldSql(code, 'r')})`)]
    const where = [
      texts.length === 1 ? `${label} = lower($value)` : `lower($value) in (${texts.join(', ')})`,
      ...conditions,
      ...(scope === null ? [] : [`r.${scope} = t.${scope}`]),
    ]
    return {
      sql: `(select r.${quoteIfNeeded(targets[0] ?? '')} from ${to.sqlName} r where ${where.join(' and ')})`,
      reason: '',
      ...labelMap(role, field.values),
    }
  }
  return {
    sql: null,
    reason:
      labels.length > 0
        ? `refers to ${to.sqlName}, where names repeat`
        : `refers to ${to.sqlName}, which has no names`,
  }
}

/** How the values of the service find the labels: as they are, or by a map where the labels are others. */
function labelMap(role: ColumnRole, labels: readonly string[]): Pick<LookupColumn, 'map' | 'isRange'> {
  if (role === 'country' && labels.every(isCountryName)) return {}
  const map = mapToLabels(role, labels)
  const isOther = Object.entries(map ?? {}).some(
    ([sent, label]) => sent.toLowerCase() !== label.toLowerCase(),
  )
  if (map === null || !isOther || !(role === 'country' || labels.some((label) => isKnownLabel(role, label))))
    return {}
  return { map, isRange: role === 'employees' }
}

const TENANT_KEY = /^(?:tenant|workspace|account|organi[sz]ation|company|team|vault)_?id$/i

/** A name by language: `{"en_US": "Norway"}`. */
const isEnglish = ([key = '']: readonly string[]): boolean => /^en(?:[_-](?:US|GB))?$/i.test(key)

/** A column of two- or three-letter country codes. */
const isCode = ({ words, values, fit, path }: CandidateField): boolean =>
  fit.kind === 'text' &&
  path.length === 0 &&
  CODE_NAMES.test(words.join(' ')) &&
  values.length > 0 &&
  values.every((value) => /^[A-Za-z]{2,3}$/.test(value.trim()))

/** Text columns whose values are keys of a list: its name occurs in the list's name. Pure. */
export function suggestedTextLookups(tables: readonly IntrospectedTable[]): TableRelation[] {
  const roles = [...new Set([...PERSON_ROLES, ...COMPANY_ROLES])]
  return tables.flatMap((from) =>
    from.fields.flatMap((field) => {
      if (field.fit.kind !== 'text' || field.path.length > 0 || field.values.length < 3) return []
      if (field.name !== 'user' && !roles.some((role) => scoreName(role, field.words, new Set()) >= 60))
        return []
      const to = tables.find(({ table }) => {
        const words = new Set(splitIdentifier(table.name).map(singularize))
        const [key, ...more] = table.primaryKey
        const type = table.columns.find((column) => column.name === key)?.type.fit.kind
        return (
          table.sql !== from.table.sql &&
          more.length === 0 &&
          type === 'text' &&
          field.words.every((word) => words.has(singularize(word)))
        )
      })
      const [target] = to?.table.primaryKey ?? []
      return to === undefined || target === undefined
        ? []
        : [{ from, to, columns: [field.name], targets: [target], type: null }]
    }),
  )
}
