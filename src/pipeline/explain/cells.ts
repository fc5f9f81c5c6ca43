import { isDeepStrictEqual } from 'node:util'
import type { InputName } from '../../domain/mapping.ts'
import { fieldOf, fitRecord } from '../../sources/fit/record.ts'
import { inputNames } from '../../sources/inputs.ts'
import type { LookedAt } from '../../sources/look.ts'
import type { Source } from '../../sources/source.ts'
import type { ChangeStory, LookupStory } from '../../store/story.ts'
import { inOrder } from '../columns.ts'
import type { Change, Column, Field } from './story.ts'

type Values = Readonly<Record<string, unknown>>

/** The inputs that the source maps, with what its expressions give. */
export function mappedInputs(
  { mapping }: Source,
  inputs: Readonly<Record<InputName, string | null>> | null,
): Partial<Record<InputName, string | null>> {
  const names = inputNames.filter((name) => mapping.inputs[name] !== undefined)
  return inputs === null ? {} : Object.fromEntries(names.map((name) => [name, inputs[name]]))
}

/** The columns as they are now, and where each value comes from. */
export function columnsOf(
  source: Source,
  now: LookedAt,
  written: Values | null,
  changes: readonly ChangeStory[],
): Column[] {
  const policies = new Map(source.outputs.map((output) => [output.column, output.mapping.policy]))
  return now.cells.map(({ column, value, blank, touched }) => {
    // A touched column is not among what Fillrate claims to have written: the latest change tells.
    const latest = changes.find((change) => column in change.after && change.undone_by === null)
    const claimed = touched ? latest?.after[column] : written?.[column]
    const ours = claimed !== undefined && !blank && isDeepStrictEqual(claimed, value)
    const by = changes.find((change) => isDeepStrictEqual(change.after[column], value))
    return {
      column,
      value,
      blank,
      policy: policies.get(column) ?? null,
      written_by_fillrate: ours,
      written_by: ours ? (by?.run ?? null) : null,
    }
  })
}

/** Each output with its field of the record, and whether it fits. */
export function fieldsOf(source: Source, { record, confidence }: LookupStory): Field[] {
  if (record === null) return []
  const reasons = new Map(
    fitRecord(source, record, confidence).skipped.map((cell) => [cell.column, cell.reason]),
  )
  return source.outputs.map(({ column, mapping: { field } }) => ({
    field,
    column,
    value: fieldOf(record, field) ?? null,
    skipped: reasons.get(column) ?? null,
  }))
}

export function changeOf(
  source: Source,
  { id, run, written_at, undoes, undone_by, before, after, undone }: ChangeStory,
): Change {
  const cells = inOrder(source, Object.keys(after)).map((column) => ({
    column,
    before: before[column] ?? null,
    after: after[column],
    undone: undone.includes(column),
  }))
  return { id, run, written_at, undoes, undone_by, cells }
}
