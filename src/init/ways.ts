import { type ClassifiedSchema, type ClassifiedTable, relationsBetween } from './classify.ts'
import { exclusionConditions } from './flags.ts'
import { type TableRelation, hasSameKey, invert, joinCondition } from './relations.ts'

/** The rows `e` of another table that belong to a row `t`, as a part of SQL: `from … where`. */
export interface RowWay {
  readonly side: ClassifiedTable
  /** The row has the key of the other, the other has the key of the row, or a third table, `l`, has both. */
  readonly by: 'own key' | 'its key' | 'link'
  readonly relation: TableRelation
  readonly link: ClassifiedTable | null
  readonly from: string
  readonly where: readonly string[]
}

/** How rows of a table lead to those of another. Pure. */
export function waysTo(schema: ClassifiedSchema, row: ClassifiedTable, side: ClassifiedTable): RowWay[] {
  const own = relationsBetween(schema, row, side)
  const its = side === row ? [] : relationsBetween(schema, side, row)
  const direct = { side, link: null, from: `${side.sqlName} e` }
  return [
    ...its.map((relation): RowWay => ({
      ...direct,
      by: 'its key',
      relation,
      where: [joinCondition(relation, 'e', 't')],
    })),
    ...schema.tables.flatMap((link): RowWay[] => {
      const [relation] = relationsBetween(schema, link, side)
      const [toRow] = relation
        ? [
            ...relationsBetween(schema, link, row),
            ...relationsBetween(schema, row, link).filter(hasSameKey).map(invert),
          ]
        : []
      if (!relation || !toRow || link === row || side === row || link === side || isParty(link)) return []
      // One column cannot lead to both tables: it is polymorphic and names the owner of the row.
      if (relation.columns.some((column) => toRow.columns.includes(column))) return []
      const from = `${link.sqlName} l join ${side.sqlName} e on ${joinCondition(relation, 'l', 'e')}`
      const where = [joinCondition(toRow, 'l', 't'), ...exclusionConditions(link, 'l', 'link')]
      return [{ side, link, by: 'link', relation, from, where }]
    }),
    ...own.map((relation): RowWay => ({
      ...direct,
      by: 'own key',
      relation,
      where: [joinCondition(relation, 't', 'e')],
    })),
  ]
}

/** What is a row itself, and no link between others. */
const isParty = ({ kinds, mirrored }: ClassifiedTable): boolean => kinds.length + mirrored.length > 0
