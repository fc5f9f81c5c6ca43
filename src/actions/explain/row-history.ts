import { isDeepStrictEqual } from 'node:util'
import { Lookup } from '../../domain/lookup.ts'
import type { InputName, WritePolicy } from '../../domain/mapping.ts'
import type { RowState } from '../../domain/row.ts'
import type { SkipReason } from '../../domain/skipped-cell.ts'
import { isTouchColumn, sortByConfig } from '../../pipeline/row-results.ts'
import { MAPPING_INPUTS } from '../../sources/inputs.ts'
import type { RowEvaluation, RowValues } from '../../sources/read-row.ts'
import type { Source } from '../../sources/source-model.ts'
import type { ChangeHistory, JobHistory, LookupHistory } from '../../store/row-history.ts'
import { type ServiceNames, toServiceName } from '../../store/services.ts'
import type { NextStep } from './next-step.ts'

/**
 * One row's history, from its current values to its next step.
 * @example
 * const history = await fillrate.explain('contacts', '42')
 */
export interface RowHistory {
  readonly source: string
  readonly key: string
  readonly table: string
  readonly row: {
    readonly exists: boolean
    /** What excludes it from the source; null if it belongs to it. */
    readonly excluded_by: RowEvaluation['leftOutBy']
    /** The conditions of `where` that it does not meet, as configured. */
    readonly unmet_conditions: readonly string[]
    /** Rows that the joins return for it. More than one is a mistake in the mapping. */
    readonly join_count: number
    /** The error of an expression that fails on it. */
    readonly problem: string | null
    /** Until when its `freshness` column keeps it from being picked; null: it does not. */
    readonly fresh_until: Date | null
    /** Values of the source's input expressions, without what Fillrate filled itself. */
    readonly inputs: Readonly<Partial<Record<InputName, string | null>>>
    /** Those that Fillrate filled itself: the row is not looked up by them. */
    readonly filled_inputs: Readonly<Partial<Record<InputName, string>>>
    /** The lookup that its inputs make; null if none is usable or may be requested. */
    readonly lookup_request: ProposedLookup | null
    /** An identifier of it was erased: it is never looked up. */
    readonly is_suppressed: boolean
    readonly input_notes: ReadonlyArray<{ readonly input: string; readonly reason: string }>
    readonly columns: readonly ColumnState[]
  }
  /** Null: never picked. */
  readonly state: RowStatus | null
  readonly lookup: LookupSummary | null
  /** Lookups without a match that preceded this one, in a cascade. */
  readonly missed_lookups: readonly LookupSummary[]
  readonly job: JobHistory | null
  /** The service's record, whole. */
  readonly record: unknown
  readonly fields: readonly ExplainedField[]
  /** Newest first. */
  readonly changes: readonly RowChange[]
  readonly next: NextStep
}

interface ProposedLookup {
  readonly kind: string
  readonly input: Readonly<Record<string, string>>
}

export interface ColumnState {
  readonly column: string
  readonly value: unknown
  readonly blank: boolean
  /** Null: a `touch` column. */
  readonly policy: WritePolicy | null
  /** It still holds the value that Fillrate wrote. Null: what Fillrate wrote to the row was erased. */
  readonly written_by_fillrate: boolean | null
  /** The source whose write that was: this one, or another one on the same table. */
  readonly written_by_source: string | null
  /** The run that wrote it; null if unknown. */
  readonly written_by: number | null
  /** The service whose record that was. Absent: unknown, or there is one alone. */
  readonly service?: string
}

export interface RowStatus {
  readonly state: RowState
  readonly reason: string | null
  readonly notes: Readonly<Record<string, unknown>> | null
  /** The run that finished it last, or that holds it. */
  readonly run: number | null
  /** That run's process is alive. */
  readonly alive: boolean
  readonly inputs_changed: boolean
  readonly picked_at: Date
  readonly settled_at: Date | null
  readonly due_at: Date | null
}

export interface LookupSummary extends Omit<LookupHistory, 'record' | 'service'> {
  /** Absent: the database knows one alone. */
  readonly service?: string
  /** Why the row went on to another service. Absent: it did not. */
  readonly went_on?: string
}

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

/** One output: its field of the record, and what became of the value. */
export interface ExplainedField {
  /** The service whose record it is of. Absent: the database knows one alone. */
  readonly service?: string
  readonly field: string
  readonly column: string
  readonly value: unknown
  /** Why it is not written, as a code; null: it is, or could be. */
  readonly skipped: SkipReason | null
  /** Whether it was written, and why not, in words. */
  readonly result: string
}

export interface RowChange {
  readonly id: number
  readonly run: number | null
  /** The service whose record it wrote. Absent: unknown, or there is one alone. */
  readonly service?: string
  readonly written_at: Date
  /** The run that this change reverts. */
  readonly undoes: number | null
  /** The run that reverted this change. */
  readonly undone_by: number | null
  readonly cells: ReadonlyArray<{
    readonly column: string
    readonly before: unknown
    readonly after: unknown
    readonly undone: boolean
  }>
}

type Values = Readonly<Record<string, unknown>>

/** The inputs that the source maps, with the values of their expressions. */
export function toMappedInputs(
  { mapping }: Source,
  inputs: Readonly<Record<InputName, string | null>> | null,
): Partial<Record<InputName, string | null>> {
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
