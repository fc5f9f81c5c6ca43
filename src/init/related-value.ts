import { holdsAny } from './assign-roles.ts'
import type { ClassifiedSchema, ClassifiedTable } from './classify.ts'
import { type CandidateField, fieldSql } from './fields.ts'
import { labelsSql } from './flag-sql.ts'
import { exclusionConditions } from './flags.ts'
import type { ColumnRole } from './roles.ts'
import { listKnownLabels } from './row-filters.ts'
import { isAddressTable } from './meanings.ts'
import { hasSameKey } from './relations.ts'
import { type RowWay, waysTo } from './ways.ts'
import { headNoun, splitIdentifier, toWordSet } from './words.ts'
import { quoteIfNeeded } from '../sources/quote.ts'

type RelatedRole = ColumnRole & ('email' | 'domain' | 'profile')

/**
 * A sub-select for a value in another table, such as an email address in a table of addresses. Prefers the primary
 * value, then the oldest. Null if there is none. Pure.
 */
export function relatedValueSql(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  role: RelatedRole,
): string | null {
  for (const side of schema.tables) {
    if (side === row || side.kinds.length > 0) continue
    const ways = waysTo(schema, row, side).filter(
      ({ by, relation }) => by !== 'own key' || relation.type === null,
    )
    // What is kept beside a mirror is read first, and filled.
    if (row.mirrored.length > 0 && ways.some(({ relation }) => hasSameKey(relation))) continue
    // `profiles` has the key of `auth.users`, which has the address; `email_address` says to what it leads.
    const reference = ways.find(({ by, relation }) => {
      const isNamed = relation.columns.some((column) => namesOneOf(column, TYPE_WORDS[role]))
      return by !== 'link' && (hasSameKey(relation) || (by === 'own key' && isNamed))
    })
    const likely = ways.find(({ link }) => link === null || isAddressTable(link.table.name)) ?? ways[0]
    const way = likely?.by === 'own key' ? (reference ?? likely) : likely
    const isOf = reference !== undefined || (way?.by !== 'own key' && isAddressTable(side.table.name))
    const value = way && isOf ? findValue(side, role) : null
    if (way && value)
      return subselect(way, value.field, [...value.conditions, ...exclusionConditions(side, 'e', 'address')])
  }
  return null
}

const namesOneOf = (name: string, words: ReadonlySet<string>): boolean =>
  splitIdentifier(name).some((word) => words.has(word))

const TYPE_WORDS: Readonly<Record<RelatedRole, ReadonlySet<string>>> = {
  email: toWordSet('email mail'),
  domain: toWordSet('website web url domain site www'),
  profile: toWordSet('linkedin'),
}

/** Where the addresses of a table have no type, sites and profiles are known by their hosts. */
const HOSTS: Readonly<Record<RelatedRole, string | null>> = {
  email: null,
  domain: "!~* '(linkedin|facebook|twitter|instagram|youtube|xing)[.]com|//(www[.])?x[.]com'",
  profile: "~* 'linkedin[.]com/in/'",
}

/** In a table of addresses the column may have any name, and a type beside it. */
function findValue(
  side: ClassifiedTable,
  role: RelatedRole,
): { readonly field: CandidateField; readonly conditions: readonly string[] } | null {
  const picked = (role === 'domain' ? side.company : side.person).get(role)
  const value = side.fields.find(
    ({ fit, values, words }) =>
      fit.kind === 'text' &&
      (values.length === 0 || holdsAny(role, values)) &&
      /^(?:email |contact )?(?:address|value|name|url|data|content|detail|info string)$/.test(
        words.join(' '),
      ),
  )
  const typed = side.fields.flatMap((field) => {
    const isType = /\b(?:type|kind|channel|tag|field|category|code)(?: id)?$/.test(field.words.join(' '))
    const labels = isType && field.path.length === 0 ? listKnownLabels(field) : []
    const some = labels.filter((label) => namesOneOf(label, TYPE_WORDS[role]))
    return some.length === 0 ? [] : [labelsSql(fieldSql(field, 'e'), some)]
  })
  const field = picked ?? value
  if (field === undefined || (typed.length === 0 && picked === undefined && role === 'email')) return null
  const host = typed.length > 0 || role === 'email' ? [] : [`${fieldSql(field, 'e')} ${HOSTS[role]}`]
  return { field, conditions: [...typed.slice(0, 1), ...host] }
}

/** SQL: the first of two expressions that is not blank. */
export const firstFilled = (first: string | null, second: string | null): string | null =>
  first === null || second === null ? (first ?? second) : `coalesce(nullif(btrim(${first}), ''), ${second})`

/** How a person leads to a company through a link table. Pure. */
export const linkedCompany = (
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  company: ClassifiedTable,
): RowWay | undefined =>
  waysTo(schema, row, company).find(
    ({ link }) => link !== null && !BUSINESS_NOUNS.has(headNoun(link.table.name)),
  )

/** What a person and a company took part in does not make one the employer of the other. */
const BUSINESS_NOUNS = toWordSet(
  'lead deal activity opportunity order ticket task call event invoice note project quote contract message invitation',
)

/** One value of the rows that a row leads to: of the primary one, or the first. Pure. */
export function subselect(
  { from, where, side, link }: RowWay,
  field: CandidateField,
  conditions: readonly string[],
): string {
  const tables = [...(link === null ? [] : [{ table: link, alias: 'l' }]), { table: side, alias: 'e' }]
  const first = tables.flatMap(({ table, alias }) =>
    table.fields
      .filter(
        ({ fit, words, path }) =>
          (fit.kind === 'boolean' || fit.kind === 'integer') &&
          path.length === 0 &&
          words.at(-1) !== 'id' &&
          words.some((word) => PRIMARY_WORDS.has(word)),
      )
      .map((one) => `${fieldSql(one, alias)} desc${one.column.notNull ? '' : ' nulls last'}`),
  )
  const keys = (link ?? side).table.primaryKey.map((column) => `${tables[0]?.alias}.${quoteIfNeeded(column)}`)
  const order = [...first, ...keys]
  return [
    `(select ${fieldSql(field, 'e')}`,
    `   from ${from}`,
    `  where ${[...where, ...conditions].join('\n    and ')}`,
    `  ${order.length === 0 ? '' : `order by ${order.join(', ')} `}limit 1)`,
  ].join('\n')
}

const PRIMARY_WORDS = toWordSet('primary main default preferred standard')
