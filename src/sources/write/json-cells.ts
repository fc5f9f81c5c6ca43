import { jsonColumnSql } from '../cell.ts'
import { joinName, quoteList, quoteLiteral } from '../db.ts'
import type { MappedCell } from '../source-model.ts'

/** A key inside a json column that may be written. */
interface JsonCell {
  readonly cell: MappedCell
  /** SQL: whether it is written. */
  readonly written: string
  /** SQL for its new value, jsonb. */
  readonly value: string
}

interface Level {
  readonly leaves: Map<string, JsonCell>
  readonly inner: Map<string, Level>
}

/**
 * SQL for the new value of one json column from all keys that are written in it: creates missing parents, keeps siblings.
 * One expression over the current column, linear in the number of keys; a chain of `jsonb_set` would double with each.
 * @param as the column's own type, json or jsonb, or always jsonb
 */
export function composeJsonSql(cells: readonly JsonCell[], as: 'jsonb' | 'column' = 'column'): string {
  const first = cells[0]
  if (!first) throw new RangeError('a json column without any key')
  const root: Level = { leaves: new Map(), inner: new Map() }
  for (const one of cells) insertKey(root, one.cell.path, one)
  const column = jsonColumnSql(first.cell)
  const composed = levelSql(root, [], column)
  return as === 'column' && first.cell.type.fit.kind === 'json' ? `(${composed})::text::json` : composed
}

function insertKey(at: Level, path: readonly string[], one: JsonCell): void {
  const [key = '', ...rest] = path
  if (rest.length === 0) {
    at.leaves.set(key, one)
    return
  }
  const inner = at.inner.get(key) ?? { leaves: new Map(), inner: new Map() }
  at.inner.set(key, inner)
  insertKey(inner, rest, one)
}

function levelSql(at: Level, path: readonly string[], column: string): string {
  const now = `coalesce(nullif(${column} #> ${quoteList(path)}, 'null'), '{}')`
  const leaves = [...at.leaves].map(([key, one]) => additionSql(one.written, key, one.value))
  const inner = [...at.inner].map(([key, next]) =>
    additionSql(`(${conditionsIn(next).join(' or ')})`, key, levelSql(next, [...path, key], column)),
  )
  return `(${[now, ...leaves, ...inner].join(' || ')})`
}

const additionSql = (written: string, key: string, value: string): string =>
  `case when ${written} then jsonb_build_object(${quoteLiteral(key)}, ${value}) else '{}' end`

const conditionsIn = (at: Level): string[] => [
  ...[...at.leaves.values()].map((one) => one.written),
  ...[...at.inner.values()].flatMap(conditionsIn),
]

/**
 * The parents of a key, outermost first: their configured names, and SQL for their values. A parent that is empty or
 * JSON null must be recorded: once the key is removed again, it looks like one that was created for it.
 */
export const listParents = (cell: MappedCell): Array<{ readonly name: string; readonly value: string }> =>
  cell.path.map((_, depth) => ({
    name: joinName([cell.attribute, ...cell.path.slice(0, depth)]),
    value: `(${jsonColumnSql(cell)} #> ${quoteList(cell.path.slice(0, depth))})`,
  }))
