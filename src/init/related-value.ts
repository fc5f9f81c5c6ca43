import { notDeletedConditions } from './row-filters.ts'
import { quoteIfNeeded, fieldSql, type CandidateField } from './fields.ts'
import { joinCondition, type TableRelation } from './relations.ts'
import type { ColumnRole } from './roles.ts'
import { relationsBetween, type ClassifiedTable, type ClassifiedSchema } from './classify.ts'

/**
 * A sub-select for a value in another table, such as an email address in a table of addresses: reached by a key in
 * that table, through a link table, or by a key in the row itself. Prefers the primary value, then the oldest. Null
 * if there is none. Pure.
 */
export function relatedValueSql(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  role: ColumnRole & ('email' | 'domain' | 'profile'),
): string | null {
  for (const side of schema.tables) {
    if (side.table.sql === row.table.sql || side.kinds.length > 0) continue
    const field = findValueField(side, role)
    if (field === undefined) continue
    const value = fieldSql(field, 'e')
    const alive = notDeletedConditions(side, 'e', 'address')
    const [direct] = relationsBetween(schema, side, row)
    if (direct)
      return subselect(
        value,
        `${side.sqlName} e`,
        [joinCondition(direct, 'e', 't'), ...alive],
        orderBySql([[side, 'e']]),
      )
    for (const link of schema.tables) {
      const [toSide, toRow] = [
        relationsBetween(schema, link, side)[0],
        relationsBetween(schema, link, row)[0],
      ]
      if (!toSide || !toRow || !useDifferentColumns(toSide, toRow) || link.kinds.length > 0) continue
      return subselect(
        value,
        `${link.sqlName} l join ${side.sqlName} e on ${joinCondition(toSide, 'l', 'e')}`,
        [joinCondition(toRow, 'l', 't'), ...notDeletedConditions(link, 'l', 'link'), ...alive],
        orderBySql([
          [link, 'l'],
          [side, 'e'],
        ]),
      )
    }
    const [own] = relationsBetween(schema, row, side)
    if (own)
      return subselect(
        value,
        `${side.sqlName} e`,
        [joinCondition(own, 't', 'e'), ...alive],
        orderBySql([[side, 'e']]),
      )
  }
  return null
}

/** In a table of addresses, the value column may have any name. */
function findValueField(
  side: ClassifiedTable,
  role: 'email' | 'domain' | 'profile',
): CandidateField | undefined {
  const roleFields = role === 'domain' ? side.company : side.person
  const picked = roleFields.get(role)
  if (picked) return picked
  const isNamedSo = side.table.name.toLowerCase().includes(role)
  return side.fields.find(
    (field) =>
      isNamedSo && field.fit.kind === 'text' && /^(?:address|value|name|url)$/.test(field.words.join(' ')),
  )
}

/** A sub-select for a person's company name through a link table; null if there is none. Pure. */
export function linkedCompanySql(
  schema: ClassifiedSchema,
  row: ClassifiedTable,
  company: ClassifiedTable,
  name: CandidateField,
): string | null {
  for (const link of schema.tables) {
    if (link.kinds.length > 0) continue
    if (link.table.sql === row.table.sql || link.table.sql === company.table.sql) continue
    const [toRow, toCompany] = [
      relationsBetween(schema, link, row)[0],
      relationsBetween(schema, link, company)[0],
    ]
    if (!toRow || !toCompany || !useDifferentColumns(toRow, toCompany)) continue
    return subselect(
      fieldSql(name, 'a'),
      `${link.sqlName} l join ${company.sqlName} a on ${joinCondition(toCompany, 'l', 'a')}`,
      [
        joinCondition(toRow, 'l', 't'),
        ...notDeletedConditions(link, 'l', 'link'),
        ...notDeletedConditions(company, 'a'),
      ],
      orderBySql([[link, 'l']]),
    )
  }
  return null
}

/** One column cannot lead to both tables: it is polymorphic and names the owner of the row. */
const useDifferentColumns = (one: TableRelation, other: TableRelation): boolean =>
  !one.columns.some((column) => other.columns.includes(column))

/** A sub-select for a value of the related row. */
export function relatedRowSql(relation: TableRelation, target: ClassifiedTable, value: string): string {
  const untyped = { ...relation, type: null }
  return subselect(
    value,
    `${target.sqlName} a`,
    [joinCondition(untyped, 't', 'a'), ...notDeletedConditions(target, 'a')],
    '',
  )
}

const subselect = (value: string, from: string, conditions: readonly string[], orderBy: string): string =>
  [`(select ${value}`, `from ${from}`, `where ${conditions.join(' and ')}`, `${orderBy}limit 1)`].join('\n')

function orderBySql(tables: ReadonlyArray<readonly [ClassifiedTable, string]>): string {
  const first = tables.flatMap(([{ fields }, alias]) =>
    fields
      .filter(
        ({ fit, words, path }) =>
          fit.kind === 'boolean' && path.length === 0 && words.some((word) => PRIMARY_WORDS.has(word)),
      )
      .map(
        (field) => `${alias}.${quoteIfNeeded(field.name)} desc${field.column.notNull ? '' : ' nulls last'}`,
      ),
  )
  const keys = tables
    .slice(0, 1)
    .flatMap(([{ table }, alias]) => table.primaryKey.map((column) => `${alias}.${quoteIfNeeded(column)}`))
  const all = [...first, ...keys]
  return all.length === 0 ? '' : `order by ${all.join(', ')} `
}

const PRIMARY_WORDS = new Set('primary main default preferred'.split(' '))
