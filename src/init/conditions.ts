import { quoteLiteral } from '../sources/db.ts'
import { toCellSql, type Cell } from './cells.ts'
import { isCount, isDeletionOrObjection, isEndingDate, isNameColumn, isPositiveFlag } from './names.ts'
import type { ProposedCondition } from './proposal.ts'

/** Rows that perhaps must not be looked up. */
export interface Reason {
  /** SQL: the rows that are left out. */
  readonly leave: string
  /** SQL: the rows that stay, NULL or not. */
  readonly keep: string
  readonly leaves: number
  /** Whether its name says deletion or objection. */
  readonly isNamed: boolean
}

/** How many rows hold each label of a cell, the most frequent first. */
export type Labels = ReadonlyMap<string, number>

/** A list with more labels, or longer ones, is no short one. */
const MAX_LABELS = 12
const MAX_LABEL_CHARACTERS = 40
/** Each label of a short list is repeated by this many rows, on average. */
const MIN_REPEATED = 3

/** Whether a cell may say who must not be looked up: a flag, a date that ends something, a short list of texts. Pure. */
export function mayBeReason({ kind, ownName, values }: Cell): boolean {
  if (kind === 'time') return isEndingDate(ownName)
  if (kind === 'boolean' || kind === 'list') return true
  if (kind === 'text' && isNameColumn(ownName)) return false
  // A number that refers to a row of another table, or counts something, is no label.
  if (kind === 'number' || (kind === 'integer' && (/id$/i.test(ownName) || isCount(ownName)))) return false
  return new Set(values.filter((value) => value !== null)).size <= MAX_LABELS
}

/** Whether a few texts are repeated, so that they divide the rows. Pure. */
export function isShortList(labels: Labels): boolean {
  const rows = [...labels.values()].reduce((sum, count) => sum + count, 0)
  return (
    labels.size > 0 &&
    labels.size <= MAX_LABELS &&
    rows >= MIN_REPEATED * labels.size &&
    [...labels.keys()].every((label) => label.length <= MAX_LABEL_CHARACTERS)
  )
}

/**
 * What a cell says of rows, a reason for each of its labels. Pure.
 * @param rows the rows of which the labels were counted
 */
export function listReasons(cell: Cell, labels: Labels, rows: number, alias = 't'): Reason[] {
  const own = toCellSql(cell, alias)
  const isNamed = isDeletionOrObjection(cell.ownName)
  const past = labels.get('past') ?? 0
  if (cell.kind === 'time') {
    const leaves = past + (labels.get('future') ?? 0)
    // What is deleted is so when the date is set; anything else has ended when the date has come.
    return isNamed
      ? [{ leave: `${own} is not null`, keep: `${own} is null`, leaves, isNamed }]
      : [{ leave: `${own} <= now()`, keep: `(${own} is null or ${own} > now())`, leaves: past, isNamed }]
  }
  const createReason = (label: string, isReason: boolean): Reason => ({
    ...compareLabel(cell, own, label),
    leaves: labels.get(label) ?? 0,
    isNamed: isReason,
  })
  if (cell.kind === 'boolean') {
    const isPositive = isPositiveFlag(cell.ownName)
    return [createReason(String(!isPositive), isNamed && !isPositive)]
  }
  if (!isNamed && !isShortList(labels)) return []
  // A label that every row has divides nothing.
  const dividing = [...labels.keys()].filter((label) => (labels.get(label) ?? 0) < rows)
  // A flag of 0 and 1 that no row has set yet.
  if (isNamed && cell.kind === 'integer' && !labels.has('1')) dividing.push('1')
  return dividing.map((label) =>
    createReason(label, isDeletionOrObjection(label) || (isNamed && YES.test(label))),
  )
}

const YES = /^(?:1|t|true|y|yes|on)$/i

/** SQL for the rows with a label, and for those without. */
function compareLabel(
  { kind, column, path }: Cell,
  own: string,
  label: string,
): Pick<Reason, 'leave' | 'keep'> {
  const isColumn = path.length === 0
  if (kind === 'boolean' && isColumn) return { leave: `${own} is ${label}`, keep: `${own} is not ${label}` }
  const literal = kind === 'integer' ? label : quoteLiteral(label)
  if (kind !== 'list') return { leave: `${own} = ${literal}`, keep: `${own} is distinct from ${literal}` }
  const leave =
    isColumn && column.type.fit.kind === 'array'
      ? `${literal} = any (${own})`
      : `(${own})::jsonb @> ${quoteLiteral(JSON.stringify([label]))}`
  return { leave, keep: `(${leave}) is not true` }
}

/**
 * The conditions of a source, those in force first. In force are conditions that are named as deletion or objection: none over a table
 * without rows, and none that would leave no row. Pure.
 * @param rows the rows that were counted
 */
export const decideConditions = (rows: number, reasons: readonly Reason[]): readonly ProposedCondition[] =>
  reasons
    .map(({ keep, leaves, isNamed }): ProposedCondition => {
      const state = isNamed && leaves < rows ? 'active' : 'offered'
      return { keep, leaves, state }
    })
    .toSorted((a, b) => Number(b.state === 'active') - Number(a.state === 'active'))
