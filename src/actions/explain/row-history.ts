import { isDeepStrictEqual } from 'node:util'
import type { ColumnState, LookupSummary, RowChange } from '../../domain/report/explain.ts'
import { Lookup } from '../../domain/lookup.ts'
import type { InputName } from '../../domain/mapping.ts'
import { isTouchColumn, sortByConfig } from '../../pipeline/row-results.ts'
import { MAPPING_INPUTS } from '../../sources/inputs.ts'
import type { RowValues } from '../../sources/read-row.ts'
import type { Source } from '../../sources/source-model.ts'
import type { ChangeHistory, LookupHistory } from '../../store/row-history.ts'
import { type ServiceNames, toServiceName } from '../../store/services.ts'

/** The lookups of a pass in their order, each with the reason why the row went on to another service. */
export function toLookupSummaries(
  lookups: readonly LookupHistory[],
  names: ServiceNames,
  minConfidenceOf: (service: number) => number,
): LookupSummary[] {
  return lookups.map((lookup, n) => {
    const { record: _, service, ...rest } = lookup
    const hasGoneOn = (lookups[n + 1]?.service ?? service) !== service
    return {
      ...rest,
      ...toServiceName(names, service),
      ...(hasGoneOn && { went_on: describeOnward(rest, minConfidenceOf(service)) }),
    }
  })
}

function describeOnward(
  { state, confidence }: Pick<LookupHistory, 'state' | 'confidence'>,
  minConfidence: number,
): string {
  if (state === Lookup.rejected) return 'it does not take the input'
  if (state === Lookup.failed) return 'its record has expired since'
  if (state !== Lookup.found) return 'it had no match'
  return confidence !== null && confidence < minConfidence
    ? 'its record is below `minConfidence`'
    : 'its record left a wanted cell blank'
}

type Values = Readonly<Record<string, unknown>>

/** The inputs that the source maps, with the values of their expressions. */
export function toMappedInputs(
  { mapping }: Source,
  inputs: Readonly<Record<InputName, string | null>> | null,
): Record<string, string | null> {
  const names = MAPPING_INPUTS.filter((name) => mapping.inputs[name] !== undefined)
  return inputs === null ? {} : Object.fromEntries(names.map((name) => [name, inputs[name]]))
}

/** What a source has written to the row. */
export interface SourceWrites {
  readonly source: Source
  readonly written: Values | null
  /** Newest first. */
  readonly changes: readonly ChangeHistory[]
}

/**
 * The current columns, and where each value comes from.
 * @param writers this source first, then others on the same table
 * @param options.isErased what Fillrate knew of its own writes to the row was erased
 */
export function toColumnStates(
  source: Source,
  current: RowValues,
  writers: readonly SourceWrites[],
  { isErased = false, names }: { readonly isErased?: boolean; readonly names: ServiceNames },
): ColumnState[] {
  const policies = new Map(source.outputs.map((output) => [output.column, output.mapping.policy]))
  return current.cells.map(({ column, value, blank }) => {
    const writer = blank ? undefined : writers.find((one) => holdsWrite(one, column, value))
    const change = writer?.changes.find(({ after }) => isDeepStrictEqual(after[column], value))
    return {
      column,
      value,
      blank,
      policy: policies.get(column) ?? null,
      written_by_fillrate: writer === undefined && isErased && !blank ? null : writer !== undefined,
      written_by_source: writer?.source.name ?? null,
      written_by: change?.run ?? null,
      ...toServiceName(names, change?.service ?? null),
    }
  })
}

/** Whether a cell still holds what a source wrote. */
function holdsWrite({ source, written, changes }: SourceWrites, column: string, value: unknown): boolean {
  // `touch` columns are not in `last_written`: use the latest change instead.
  const latestChange = changes.find((change) => column in change.after && change.undone_by === null)
  const lastWritten = isTouchColumn(source, column) ? latestChange?.after[column] : written?.[column]
  return lastWritten !== undefined && isDeepStrictEqual(lastWritten, value)
}

/** A stored change with its cells in configuration order. */
export function toRowChange(
  source: Source,
  { id, run, service, written_at, undoes, undone_by, before, after, undone }: ChangeHistory,
  names: ServiceNames,
): RowChange {
  const cells = sortByConfig(source, Object.keys(after)).map((column) => ({
    column,
    before: before[column] ?? null,
    after: after[column],
    undone: undone.includes(column),
  }))
  return { id, run, ...toServiceName(names, service), written_at, undoes, undone_by, cells }
}
