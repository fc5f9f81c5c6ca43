import { POLICY_RULES } from '../../domain/mapping.ts'
import { isDeepStrictEqual } from 'node:util'
import { Row } from '../../domain/row.ts'
import { describeSkip, type SkippedCell } from '../../domain/skipped-cell.ts'
import { coerceRecord, readField } from '../../sources/coerce/record.ts'
import type { Source } from '../../sources/source-model.ts'
import type { ChangeHistory, LookupHistory, RowHistoryRow } from '../../store/row-history.ts'
import { type ServiceNames, toServiceName } from '../../store/services.ts'
import type { ColumnState, ExplainedField } from './row-history.ts'

/** What is known about a row and its outputs. */
export interface FieldSituation {
  readonly row: Pick<RowHistoryRow, 'state' | 'written'> | null
  /** The current values; empty if the row is deleted. */
  readonly columns: readonly ColumnState[]
  /** As stored by the last write of each service. */
  readonly skipped: readonly (SkippedCell & { readonly service?: string })[]
  /** Newest first. */
  readonly changes: readonly ChangeHistory[]
  readonly names: ServiceNames
}

/** Each output with its field of the record, and why it was or was not written. Pure. */
export function explainFields(
  source: Source,
  lookup: Pick<LookupHistory, 'id' | 'service' | 'record' | 'confidence' | 'resolved_at'>,
  situation: FieldSituation,
): ExplainedField[] {
  const { record, confidence } = lookup
  if (record === null) return []
  const now = coerceRecord(source, record, confidence)
  const service = toServiceName(situation.names, lookup.service)
  return source.outputs.map(({ column, mapping: { field, sql } }) => {
    const isOf = (one: { readonly column: string }): boolean => one.column === column
    const current = situation.columns.find(isOf)
    const stored = situation.skipped.find((one) => isOf(one) && one.service === service.service)
    const misfit = now.skipped.find(isOf)
    const value = sql === null ? now.values[column] : undefined
    return {
      ...service,
      field,
      column,
      value: readField(record, field) ?? null,
      skipped: (stored ?? (current?.written_by_fillrate === true ? undefined : misfit))?.reason ?? null,
      result: describeField(source.name, column, current, { stored, misfit, value, lookup, ...situation }),
    }
  })
}

/** Whether a change wrote an earlier record than the present one of the lookup. */
const isEarlier = (
  change: ChangeHistory | undefined,
  { id, resolved_at }: Pick<LookupHistory, 'id' | 'resolved_at'>,
): boolean =>
  change !== undefined &&
  change.lookup !== null &&
  (change.lookup !== id || (resolved_at !== null && change.written_at < resolved_at))

interface OutputSituation extends Pick<FieldSituation, 'row' | 'changes' | 'names'> {
  /** Why the last write skipped the cell. */
  readonly stored: SkippedCell | undefined
  /** Why the record has nothing to write under the current mapping. */
  readonly misfit: SkippedCell | undefined
  /** The value for the column; undefined if there is none, or if only the database can tell. */
  readonly value: unknown
  readonly lookup: Pick<LookupHistory, 'id' | 'service' | 'resolved_at'>
}

function describeField(
  source: string,
  column: string,
  current: ColumnState | undefined,
  { stored, misfit, value, row, changes, lookup, names }: OutputSituation,
): string {
  if (current === undefined) return 'not written: the row does not exist'
  const { blank, policy, written_by_fillrate: isOurs, written_by_source: other, written_by: writer } = current
  const isElsewhere = other !== null && other !== source
  const replacesOthers = policy !== null && POLICY_RULES[policy].replacesOthers
  const by = `${writer === null ? 'Fillrate' : `run ${writer}`}${isElsewhere ? ` (source ${other})` : ''}`
  if (stored !== undefined)
    return `not written: ${describeSkip(stored)}${isOurs ? `; the column holds the value of ${by}` : ''}`
  if (isElsewhere && !replacesOthers) return `not written: the column holds the value of ${by}`
  if (isOurs && !isElsewhere) {
    const origin = changes.find(({ after }) => isDeepStrictEqual(after[column], current.value))
    const isSame = isDeepStrictEqual(current.value, value) || !isEarlier(origin, lookup)
    if (isSame) return `written by ${by}`
    const service = names.get(origin?.service ?? lookup.service)
    if (service !== undefined && origin?.service !== lookup.service)
      return `not written: ${misfit?.reason === 'absent' ? describeSkip(misfit) : `the column holds what ${by} wrote from ${service}`}`
    const from = origin?.lookup === lookup.id ? 'from an earlier record' : 'for other inputs'
    return `not written: the column holds what ${by} wrote ${from}`
  }
  const emptying = changes.find(({ after }) => Object.hasOwn(after, column))
  if (blank && emptying?.undoes === null && emptying.after[column] === null)
    return `emptied${emptying.run === null ? '' : ` by run ${emptying.run}`}: its value was of earlier inputs`
  if (misfit?.reason === 'absent') return `not written: ${describeSkip(misfit)}`
  if (!blank && value !== undefined && isDeepStrictEqual(current.value, value))
    return 'not written: the column holds the same value'
  if (!blank && !replacesOthers)
    return `not written: the column holds a value, which the policy \`${policy}\` protects`
  if (misfit !== undefined) return `not written: ${describeSkip(misfit)}`
  if (!blank) return `not written yet: the policy \`${policy}\` overwrites the value at the next write`
  const change = changes.find(({ after, undoes }) => undoes === null && Object.hasOwn(after, column))
  if (change?.undone_by != null && change.undone.includes(column))
    return `written${change.run === null ? '' : ` by run ${change.run}`}, undone by run ${change.undone_by}`
  if (row?.written != null && Object.hasOwn(row.written, column))
    return `written${change?.run == null ? '' : ` by run ${change.run}`}, and emptied since`
  if (row?.state === Row.waiting) return 'not written yet'
  if (row?.state === Row.writeRejected) return 'not written: the row could not be written'
  return 'not written: another cell of its group has none, or the mapping has changed since'
}
