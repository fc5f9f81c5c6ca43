import { POLICY_RULES } from '../domain/mapping.ts'
import { holdsLastWrittenSql, isReachableSql } from './cell.ts'
import { quoteLiteral } from './db.ts'
import type { MappedCell, MappedOutput, Source } from './source-model.ts'

/*
 * Whose value a cell holds, where the inputs of its row have changed: what Fillrate wrote for earlier inputs counts as blank. One
 * expression decides it for the pick, the next service, the plan and the write, over `t`, the row, and `~earlier`, the values
 * that were written for other inputs, by column.
 */

/** Whether what was written for earlier inputs counts as blank in the cell. */
const countsAsBlank = ({ mapping }: MappedOutput): boolean => POLICY_RULES[mapping.policy].readsEarlier

/** Whether any cell of a source may hold what counts as blank. */
export const readsEarlier = ({ outputs }: Pick<Source, 'outputs'>): boolean => outputs.some(countsAsBlank)

/**
 * The source with all that its services fill, of which this one gives its own a value: what was written for earlier inputs goes with the
 * first record for the new ones, whichever service fills the cell.
 */
export function toWholeSource(source: Source): Source {
  const { outputs, allOutputs } = source
  if (allOutputs === undefined) return source
  const others = allOutputs
    .filter(({ column }) => outputs.every((own) => own.column !== column))
    .map((output) => ({ ...output, mapping: { ...output.mapping, group: null } }))
  return { ...source, outputs: [...outputs, ...others] }
}

/** SQL: whether the cell still holds what Fillrate wrote for earlier inputs. Never NULL. */
const holdsEarlierSql = (cell: MappedCell): string =>
  holdsLastWrittenSql(cell, `("~earlier" -> ${quoteLiteral(cell.column)})`)

/** SQL: whether it does, and may lose it: no value of a user is in the way. */
const losesToNewSql = (output: MappedOutput): string =>
  `${holdsEarlierSql(output)} and ${isReachableSql(output)}`

/**
 * SQL: whether the row is the one that Fillrate wrote for earlier inputs, so that what it wrote is no user's: it holds the stamp that
 * Fillrate set, two of the values, or all of them. A key that is used again is another row, in which one value may be the same by
 * chance.
 */
export function isTakenOverSql({ outputs, freshness }: Pick<Source, 'outputs' | 'freshness'>): string {
  const count = (conditions: readonly string[]): string =>
    conditions.map((condition) => `(${condition})::int`).join(' + ')
  const held = count(outputs.map(holdsEarlierSql))
  const known = count(outputs.map(({ column }) => `"~earlier" ? ${quoteLiteral(column)}`))
  const isStamped = freshness === null ? '' : `${holdsEarlierSql(freshness.cell)} or `
  return `case when "~earlier" is null then false else ${isStamped}(${held}) >= least(2, ${known}) end`
}

/** SQL: whether the cell holds such a value, in a row of which `~taken over` says that it is the same. */
export const isEarlierSql = (output: MappedOutput): string =>
  countsAsBlank(output) ? `case when "~taken over" then ${losesToNewSql(output)} else false end` : 'false'

/**
 * SQL: whether a cell of the row `t` holds such a value: `here`, whichever service fills it, `later`, one that overwrites and comes
 * after another, behind which it fills blank cells alone, or NULL.
 */
export function holdsAnyEarlierSql(source: Source): string {
  const whole = toWholeSource(source)
  const anyOf = (outputs: readonly MappedOutput[]): string =>
    outputs
      .filter(countsAsBlank)
      .map((output) => `(${losesToNewSql(output)})`)
      .join(' or ') || 'false'
  return `case when not (${isTakenOverSql(whole)}) then null when ${anyOf(whole.outputs)} then 'here'
    when ${anyOf(source.laterOutputs ?? [])} then 'later' end`
}

/**
 * SQL: the blank that replaces such a value where the new record has none: NULL, or what counts as blank in a column that takes none.
 * Null: the column takes no blank, or the policy as configured counts nothing as one, and the value stays.
 */
export function blankValueSql({ table }: Source, output: MappedOutput): string | null {
  if (!countsAsBlank(output) || output.keepsEarlier === true) return null
  const { attribute, path, type } = output
  if (path.length > 0) return `'null'::jsonb`
  const isNullable = table.columns.find(({ name }) => name === attribute)?.notNull !== true
  const cast = type.cast
  if (isNullable) return `null::${cast}`
  switch (type.fit.kind) {
    case 'text':
      return `''::${cast}`
    case 'array':
      return `'{}'::${cast}`
    case 'json':
    case 'jsonb':
      return `'[]'::${cast}`
    default:
      return null
  }
}
