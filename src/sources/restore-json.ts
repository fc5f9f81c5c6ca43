import { jsonColumn } from './cell.ts'
import { composeJson, parentsOf } from './json-cells.ts'
import type { Cell } from './mapped.ts'
import { quoteList, quoteLiteral } from './quote.ts'

/**
 * LATERAL steps that give a json column's value before a write, as `"~m<n>".x`: the keys that held something are
 * set, the others taken out, and then the parents that the write had made, innermost first.
 * @param group the cells inside one column
 * @param flag SQL for whether a cell is restored
 */
export function restoredJson(group: readonly Cell[], n: number, flag: (cell: Cell) => string): string {
  const [first] = group
  if (!first) return ''
  let from = `"~m${n}_keys"`
  const steps = [step(withoutKeys(first, group, flag), from)]
  for (const parent of parentsIn(group)) {
    const isRoot = parent.path.length === 0
    const alias = isRoot ? `"~m${n}"` : `"~m${n}_${steps.length}"`
    steps.push(step(withoutParent(parent, `${from}.x`, flag), alias))
    from = alias
  }
  return steps.join('\n')
}

const step = (value: string, alias: string): string =>
  `cross join lateral (select ${value} as x offset 0) as ${alias}`

const held = (name: string): string => `("~b".b -> ${quoteLiteral(name)})`
const wasThere = (name: string): string => `("~b".b ? ${quoteLiteral(name)})`

/** Whether a cell is one that the write had made. */
const isTakenOut = (cell: Cell, flag: (cell: Cell) => string): string =>
  `(${flag(cell)} and not ${wasThere(cell.column)})`

function withoutKeys(first: Cell, group: readonly Cell[], flag: (cell: Cell) => string): string {
  const set = composeJson(
    group.map((cell) => ({
      cell,
      written: `(${flag(cell)} and ${wasThere(cell.column)})`,
      value: held(cell.column),
    })),
    't',
    'jsonb',
  )
  // With an empty path, `#-` takes nothing out.
  const out = group.map(
    (cell) => `#- case when ${isTakenOut(cell, flag)} then ${quoteList(cell.path)} else '{}' end`,
  )
  return `case when ${group.map(flag).join(' or ')} then ${set} ${out.join(' ')} else ${jsonColumn(first)} end`
}

interface Parent {
  readonly name: string
  readonly path: readonly string[]
  /** The cells inside it. */
  readonly cells: readonly Cell[]
}

/** Each parent once, innermost first. */
function parentsIn(group: readonly Cell[]): Parent[] {
  const parents = new Map<string, Parent>()
  for (const cell of group)
    for (const [depth, { name }] of parentsOf(cell).entries()) {
      const path = cell.path.slice(0, depth)
      const isInside = (other: Cell): boolean => path.every((key, at) => other.path[at] === key)
      parents.set(name, { name, path, cells: group.filter(isInside) })
    }
  return [...parents.values()].toSorted((a, b) => b.path.length - a.path.length)
}

/** A parent that is empty once its keys are taken out. Without an entry of its own, it was not there before the write. */
function withoutParent({ name, path, cells }: Parent, from: string, flag: (cell: Cell) => string): string {
  const at = quoteList(path)
  const isEmptied = `(${cells.map((cell) => isTakenOut(cell, flag)).join(' or ')}) and ${from} #> ${at} = '{}'`
  const before =
    path.length === 0
      ? held(name)
      : `case when ${wasThere(name)} then jsonb_set(${from}, ${at}, ${held(name)}) else ${from} #- ${at} end`
  return `case when ${isEmptied} then ${before} else ${from} end`
}
