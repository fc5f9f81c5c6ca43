import { aliveConditions } from './alive.ts'
import { nameInSql, readField, type Field } from './field.ts'
import { joined, type Relation } from './relations.ts'
import type { Role } from './role.ts'
import { between, type Judged, type World } from './world.ts'

/**
 * A sub-select for a value that a row has in another table: an email address in a table of addresses, reached by a key in
 * it, by a table of links, or by a key in the row itself. Of several the primary one comes first, then the oldest. Null
 * where there is none. Pure.
 */
export function sideValue(
  world: World,
  row: Judged,
  role: Role & ('email' | 'domain' | 'profile'),
): string | null {
  for (const side of world.tables) {
    if (side.table.sql === row.table.sql || side.kinds.length > 0) continue
    const field = valueField(side, role)
    if (field === undefined) continue
    const value = readField(field, 'e')
    const alive = aliveConditions(side, 'e', 'address')
    const [direct] = between(world, side, row)
    if (direct)
      return select(value, `${side.inSql} e`, [joined(direct, 'e', 't'), ...alive], order([[side, 'e']]))
    for (const link of world.tables) {
      const [toSide, toRow] = [between(world, link, side)[0], between(world, link, row)[0]]
      if (!toSide || !toRow || !areApart(toSide, toRow) || link.kinds.length > 0) continue
      return select(
        value,
        `${link.inSql} l join ${side.inSql} e on ${joined(toSide, 'l', 'e')}`,
        [joined(toRow, 'l', 't'), ...aliveConditions(link, 'l', 'link'), ...alive],
        order([
          [link, 'l'],
          [side, 'e'],
        ]),
      )
    }
    const [own] = between(world, row, side)
    if (own) return select(value, `${side.inSql} e`, [joined(own, 't', 'e'), ...alive], order([[side, 'e']]))
  }
  return null
}

/** In a table of addresses the column itself may be called by any name. */
function valueField(side: Judged, role: 'email' | 'domain' | 'profile'): Field | undefined {
  const picks = role === 'domain' ? side.company : side.person
  const picked = picks.get(role)
  if (picked) return picked
  const isNamedSo = side.table.name.toLowerCase().includes(role)
  return side.fields.find(
    (field) =>
      isNamedSo && field.fit.kind === 'text' && /^(?:address|value|name|url)$/.test(field.words.join(' ')),
  )
}

/** The name of the company where a person works, by a table of links between the two. Null where there is none. Pure. */
export function linkedCompany(world: World, row: Judged, company: Judged, name: Field): string | null {
  for (const link of world.tables) {
    if (link.kinds.length > 0) continue
    if (link.table.sql === row.table.sql || link.table.sql === company.table.sql) continue
    const [toRow, toCompany] = [between(world, link, row)[0], between(world, link, company)[0]]
    if (!toRow || !toCompany || !areApart(toRow, toCompany)) continue
    return select(
      readField(name, 'a'),
      `${link.inSql} l join ${company.inSql} a on ${joined(toCompany, 'l', 'a')}`,
      [joined(toRow, 'l', 't'), ...aliveConditions(link, 'l', 'link'), ...aliveConditions(company, 'a')],
      order([[link, 'l']]),
    )
  }
  return null
}

/** The same column can't lead to both: there it says whose the row is, the one's or the other's. */
const areApart = (one: Relation, other: Relation): boolean =>
  !one.columns.some((column) => other.columns.includes(column))

/** The row on the other side of a relation, as a sub-select for one of its values. */
export function related(relation: Relation, target: Judged, value: string): string {
  const untyped = { ...relation, type: null }
  return select(value, `${target.inSql} a`, [joined(untyped, 't', 'a'), ...aliveConditions(target, 'a')], '')
}

const select = (value: string, from: string, conditions: readonly string[], orderBy: string): string =>
  [`(select ${value}`, `from ${from}`, `where ${conditions.join(' and ')}`, `${orderBy}limit 1)`].join('\n')

function order(tables: ReadonlyArray<readonly [Judged, string]>): string {
  const first = tables.flatMap(([{ fields }, alias]) =>
    fields
      .filter(
        ({ fit, words, path }) =>
          fit.kind === 'boolean' && path.length === 0 && words.some((word) => FIRST.has(word)),
      )
      .map((field) => `${alias}.${nameInSql(field.name)} desc${field.column.notNull ? '' : ' nulls last'}`),
  )
  const keys = tables
    .slice(0, 1)
    .flatMap(([{ table }, alias]) => table.primaryKey.map((column) => `${alias}.${nameInSql(column)}`))
  const all = [...first, ...keys]
  return all.length === 0 ? '' : `order by ${all.join(', ')} `
}

const FIRST = new Set('primary main default preferred'.split(' '))
