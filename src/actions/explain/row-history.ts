import type { InputName, WritePolicy } from '../../domain/mapping.ts'
import type { RowState } from '../../domain/row.ts'
import type { RowEvaluation, RowValues } from '../../sources/read-row.ts'
import type { ChangeHistory, DeliveryHistory, JobHistory, LookupHistory } from '../../store/row-history.ts'
import type { NextStep } from './next-step.ts'
import { isDeepStrictEqual } from 'node:util'
import { coerceRecord, readField } from '../../sources/coerce/record.ts'
import { MAPPING_INPUTS } from '../../sources/inputs.ts'
import type { Source } from '../../sources/source.ts'
import { sortByConfig } from '../columns.ts'

/** One row's story, from what it is now to what comes next. */
export interface RowHistory {
  readonly source: string
  readonly key: string
  readonly table: string
  readonly row: {
    readonly exists: boolean
    /** What keeps it out of the source; null when it belongs to it. */
    readonly excluded_by: RowEvaluation['leftOutBy']
    /** Rows that the joins give for it: more than one is a mistake in the mapping. */
    readonly join_count: number
    /** The error of an expression that fails on it. */
    readonly problem: string | null
    /** As the source's expressions give them. */
    readonly inputs: Readonly<Partial<Record<InputName, string | null>>>
    /** What its inputs would be asked as; null where none is usable. */
    readonly lookup_request: ProposedLookup | null
    readonly input_notes: ReadonlyArray<{ readonly input: string; readonly reason: string }>
    readonly columns: readonly ColumnState[]
  }
  /** Null: it was never picked. */
  readonly state: RowStatus | null
  readonly lookup: LookupSummary | null
  /** Lookups that found nothing before this one, in a cascade. */
  readonly missed_lookups: readonly LookupSummary[]
  readonly job: JobHistory | null
  readonly deliveries: readonly DeliveryHistory[]
  /** The service's answer, whole. */
  readonly record: unknown
  readonly fields: readonly ExplainedField[]
  /** Newest first. */
  readonly changes: readonly RowChange[]
  readonly next: NextStep
}

export interface ProposedLookup {
  readonly kind: string
  readonly input: Readonly<Record<string, string>>
}

export interface ColumnState {
  readonly column: string
  readonly value: unknown
  readonly blank: boolean
  /** Null: a column of `touch`. */
  readonly policy: WritePolicy | null
  /** It holds what Fillrate wrote. */
  readonly written_by_fillrate: boolean
  /** The run that wrote it; null where that is not known. */
  readonly written_by: number | null
}

export interface RowStatus {
  readonly state: RowState
  readonly reason: string | null
  readonly notes: Readonly<Record<string, unknown>> | null
  /** The run that settled it last, or that holds it. */
  readonly run: number | null
  /** That run's process is alive. */
  readonly alive: boolean
  readonly inputs_changed: boolean
  readonly picked_at: Date
  readonly settled_at: Date | null
  readonly due_at: Date | null
}

export type LookupSummary = Omit<LookupHistory, 'record'>

/** What the mapping makes of one field of the record. */
export interface ExplainedField {
  readonly field: string
  readonly column: string
  readonly value: unknown
  /** Why it can't be written; null: it fits. */
  readonly skipped: string | null
}

export interface RowChange {
  readonly id: number
  readonly run: number | null
  readonly written_at: Date
  /** The run whose write this takes back. */
  readonly undoes: number | null
  /** The run that has taken this back. */
  readonly undone_by: number | null
  readonly cells: ReadonlyArray<{
    readonly column: string
    readonly before: unknown
    readonly after: unknown
    readonly undone: boolean
  }>
}

type Values = Readonly<Record<string, unknown>>

/** The inputs that the source maps, with what its expressions give. */
export function toMappedInputs(
  { mapping }: Source,
  inputs: Readonly<Record<InputName, string | null>> | null,
): Partial<Record<InputName, string | null>> {
  const names = MAPPING_INPUTS.filter((name) => mapping.inputs[name] !== undefined)
  return inputs === null ? {} : Object.fromEntries(names.map((name) => [name, inputs[name]]))
}

/** The columns as they are now, and where each value comes from. */
export function toColumnStates(
  source: Source,
  now: RowValues,
  written: Values | null,
  changes: readonly ChangeHistory[],
): ColumnState[] {
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
export function explainFields(source: Source, { record, confidence }: LookupHistory): ExplainedField[] {
  if (record === null) return []
  const reasons = new Map(
    coerceRecord(source, record, confidence).skipped.map((cell) => [cell.column, cell.reason]),
  )
  return source.outputs.map(({ column, mapping: { field } }) => ({
    field,
    column,
    value: readField(record, field) ?? null,
    skipped: reasons.get(column) ?? null,
  }))
}

export function toRowChange(
  source: Source,
  { id, run, written_at, undoes, undone_by, before, after, undone }: ChangeHistory,
): RowChange {
  const cells = sortByConfig(source, Object.keys(after)).map((column) => ({
    column,
    before: before[column] ?? null,
    after: after[column],
    undone: undone.includes(column),
  }))
  return { id, run, written_at, undoes, undone_by, cells }
}
