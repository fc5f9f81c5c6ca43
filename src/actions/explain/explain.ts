import type {
  ColumnState,
  ExplainedField,
  LookupSummary,
  RowChange,
  RowHistory,
} from '../../domain/report/explain.ts'
import * as store from '../../store/row-history.ts'
import * as runs from '../../store/runs.ts'
import { describeError } from '../../util/error-text.ts'
import { ConfigProblems } from '../../config/problems.ts'
import { chooseLookup } from '../../domain/identifiers/choose.ts'
import { Row, UNDONE_NOTE } from '../../domain/row.ts'
import type { Deps, TableDeps } from '../../pipeline/deps.ts'
import { readCandidatesByKey } from '../../pipeline/pick/candidates.ts'
import { findSuppressedRows } from '../../pipeline/pick/claim.ts'
import { describeFreshness } from '../../sources/freshness.ts'
import { isRowError } from '../../sources/db.ts'
import {
  describeKey,
  evaluateRow,
  InvalidKeyError,
  readKeysIn,
  readRow,
  type RowEvaluation,
  type RowValues,
} from '../../sources/read-row.ts'
import type { Source } from '../../sources/source-model.ts'
import type { ChangeHistory, LookupHistory, RowHistoryRow } from '../../store/row-history.ts'
import { nameServices, toServiceName, type ServiceNames } from '../../store/services.ts'
import { listSkippedCellsOfRow } from '../../store/skipped-cells.ts'
import { inTransaction } from '../../store/transaction.ts'
import { quoteText } from '../../util/text.ts'
import { decideNextStep, type RowSituation } from './next-step.ts'
import { Lookup } from '../../domain/lookup.ts'
import { POLICY_RULES, type InputName } from '../../domain/mapping.ts'
import { isTouchColumn, sortByConfig } from '../../pipeline/row-results.ts'
import { MAPPING_INPUTS } from '../../sources/inputs.ts'
import { isDeepStrictEqual } from 'node:util'
import { describeSkip, type SkippedCell } from '../../domain/skipped-cell.ts'
import { coerceRecord, readField } from '../../sources/coerce/record.ts'

interface ExplainDeps extends TableDeps, Pick<Deps, 'sources' | 'now'> {
  /** The services of the source, in their order, each with the source as that service fills it. */
  readonly served: ReadonlyMap<number, Source>
}

/**
 * Explains one row. Reads only.
 * @param keyText the key, as the user typed it
 * @throws ConfigProblems if the text cannot be a key, or no row has or ever had it
 */
export async function explainRow(deps: ExplainDeps, source: Source, keyText: string): Promise<RowHistory> {
  const { db } = deps
  const current = await readRowValues(deps, source, keyText)
  const { key } = current
  const row = await store.findRowHistory(db, source.name, key)
  const names = await nameServices(db)
  const changes = await store.listChangeHistory(db, source.name, key)
  if (!current.exists && row === null && changes.length === 0) throw missingRowProblem(source, key)

  const evaluation = current.exists ? await evaluateInSource(deps, source, key) : NOT_IN_SOURCE
  const { details } = source.mapping.step
  const choice =
    evaluation.inputs === null ? null : chooseLookup(source.mapping.kind, evaluation.inputs, { details })
  const [lookup = null] = await store.listLookupHistory(db, row?.lookup == null ? [] : [row.lookup])
  const missed = await store.listLookupHistory(db, row?.tried ?? [])
  const inOrder = lookup === null ? missed : [...missed, lookup]
  const found = inOrder.filter(({ record }) => record !== null)
  const lookups = toLookupSummaries(
    inOrder,
    names,
    (service) => (deps.served.get(service) ?? source).mapping.minConfidence,
  )
  const job = lookup?.job == null ? null : await store.findJobHistory(db, lookup.job)
  const run = row?.run == null ? null : await runs.findRun(db, row.run)
  const inputsChanged =
    evaluation.inputHash !== null && row?.input_hash != null && row.input_hash !== evaluation.inputHash
  const proposed = choice?.lookup ?? null
  const { freshUntil } = evaluation
  const isSuppressed = await hasSuppressedInputs(deps, source, evaluation)
  const own = { source, written: everWritten(row), changes }
  const columns = toColumnStates(source, current, [own, ...(await listOtherWrites(deps, source, key))], {
    isErased: row?.state === Row.suppressed,
    names,
  })
  const skipped = await listSkippedCellsOfRow(db, source.name, key)
  const next = decideNextStep(
    {
      exclusion: current.exists ? findExclusion(evaluation) : 'deleted',
      hasBlanks: evaluation.lacks,
      freshness: freshUntil === null ? null : { until: freshUntil, reason: describeFreshness(source) },
      lookupKind: proposed?.kind ?? null,
      isSuppressed,
      inputsChanged,
      isBack: row?.state === Row.unchanged && row.input_hash === null,
      isFromOtherService:
        row !== null && !deps.served.has(row.service) && (lookup !== null || row.tried.length > 0),
      isUndone: row?.state === Row.unchanged && UNDONE_NOTE in (row.notes ?? {}),
      row,
      lookup,
      job,
      isRunAlive: run?.alive ?? false,
    },
    deps.now(),
  )
  return {
    source: source.name,
    key,
    table: `${source.table.schema}.${source.table.name}`,
    row: {
      exists: current.exists,
      excluded_by: evaluation.leftOutBy,
      unmet_conditions: evaluation.unmet,
      join_count: evaluation.joinCount,
      problem: evaluation.problem,
      fresh_until: freshUntil,
      inputs: toMappedInputs(source, evaluation.inputs),
      lookup_request:
        proposed === null || isSuppressed ? null : { kind: proposed.kind, input: { ...proposed.input } },
      is_suppressed: isSuppressed,
      filled_inputs: evaluation.filled ?? {},
      input_notes: choice?.notes ?? [],
      columns,
    },
    // What Fillrate knew of its own writes is erased with a person, so its writes look like changes.
    state: row && {
      state: row.state,
      reason: row.reason,
      notes: row.notes,
      run: row.run,
      alive: run?.alive ?? false,
      inputs_changed: inputsChanged && !isSuppressed,
      picked_at: row.picked_at,
      settled_at: row.settled_at,
      due_at: row.due_at,
    },
    lookup: lookups[missed.length] ?? null,
    missed_lookups: lookups.slice(0, missed.length),
    job,
    record: found.at(-1)?.record ?? null,
    fields: found.flatMap((hit) =>
      explainFields(deps.served.get(hit.service) ?? source, hit, { row, columns, skipped, changes, names }),
    ),
    changes: changes.map((change) => toRowChange(source, change, names)),
    next,
  }
}

/** What other sources on the same table have written to the row. */
async function listOtherWrites(
  { db, sources }: ExplainDeps,
  source: Source,
  key: string,
): Promise<SourceWrites[]> {
  const others = [...sources.values()].filter(
    ({ name, table }) => name !== source.name && table.sql === source.table.sql,
  )
  const keys = await readKeysIn(db, source, others, key)
  return Promise.all(
    others.map(async (other, n) => {
      const otherKey = keys[n]
      if (otherKey == null) return { source: other, written: null, changes: [] }
      const row = await store.findRowHistory(db, other.name, otherKey)
      const changes = await store.listChangeHistory(db, other.name, otherKey)
      return { source: other, written: everWritten(row), changes }
    }),
  )
}

/** What Fillrate last wrote to each column, for whatever inputs. */
const everWritten = (row: store.RowHistoryRow | null): Readonly<Record<string, unknown>> | null =>
  row && {
    ...Object.fromEntries(Object.entries(row.earlier ?? {}).map(([column, [, value]]) => [column, value])),
    ...row.written,
  }

async function readRowValues(deps: ExplainDeps, source: Source, keyText: string): ReturnType<typeof readRow> {
  try {
    return await inTransaction(deps.db, (tx) => readRow(tx, source, keyText), deps.policy.sourceTimeoutMs)
  } catch (error) {
    throw error instanceof InvalidKeyError ? invalidKeyProblem(source, keyText, error) : error
  }
}

interface SourceEvaluation extends RowEvaluation {
  readonly lacks: boolean
  /** Until when its `freshness` column settles it; null: it does not. */
  readonly freshUntil: Date | null
  /** The error of an expression that fails on this row. */
  readonly problem: string | null
}

const NOT_IN_SOURCE: SourceEvaluation = {
  leftOutBy: null,
  unmet: [],
  joinCount: 0,
  inputs: null,
  inputHash: null,
  filled: null,
  problem: null,
  lacks: false,
  freshUntil: null,
}

async function evaluateInSource(
  { db, policy }: ExplainDeps,
  source: Source,
  key: string,
): Promise<SourceEvaluation> {
  try {
    const evaluation = await inTransaction(db, (tx) => evaluateRow(tx, source, key), policy.sourceTimeoutMs)
    const result = { ...evaluation, problem: null, lacks: false, freshUntil: null }
    if (evaluation.leftOutBy !== null || evaluation.joinCount > 1) return result
    const [row] = await inTransaction(
      db,
      (tx) => readCandidatesByKey(tx, source, [key]),
      policy.sourceTimeoutMs,
    )
    return { ...result, lacks: row?.lacks ?? false, freshUntil: row?.settledUntil ?? null }
  } catch (error) {
    if (!isRowError(error)) throw error
    return { ...NOT_IN_SOURCE, problem: describeError(error) }
  }
}

async function hasSuppressedInputs(
  { db }: ExplainDeps,
  source: Source,
  { inputs, filled }: SourceEvaluation,
): Promise<boolean> {
  return inputs !== null && (await findSuppressedRows(db, source, [{ ...inputs, filled }])).size > 0
}

function findExclusion({ leftOutBy, problem, joinCount }: SourceEvaluation): RowSituation['exclusion'] {
  if (problem !== null) return 'problem'
  return leftOutBy ?? (joinCount > 1 ? 'copies' : null)
}

const invalidKeyProblem = (source: Source, keyText: string, cause: InvalidKeyError): ConfigProblems =>
  new ConfigProblems(
    'the command',
    [
      {
        place: 'KEY',
        found: quoteText(keyText),
        expected: `a key of the source ${source.name}: ${cause.expected}`,
        todo: `Use a key of ${source.mapping.table}; \`fillrate failures\` lists some.`,
      },
    ],
    { cause },
  )

const missingRowProblem = (source: Source, key: string): ConfigProblems =>
  new ConfigProblems('the command', [
    {
      place: 'KEY',
      found: `${source.mapping.table} has no row with this key (${key}), and no run has picked one`,
      expected: `a key of the source ${source.name}: ${describeKey(source)}`,
      todo: null,
    },
  ])

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
    const isOf = (cell: { readonly column: string }): boolean => cell.column === column
    const current = situation.columns.find(isOf)
    const stored = situation.skipped.find((cell) => isOf(cell) && cell.service === service.service)
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

/** The lookups of a pass in their order, each with the reason why the row went on to another service. */
function toLookupSummaries(
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
function toMappedInputs(
  { mapping }: Source,
  inputs: Readonly<Record<InputName, string | null>> | null,
): Record<string, string | null> {
  const names = MAPPING_INPUTS.filter((name) => mapping.inputs[name] !== undefined)
  return inputs === null ? {} : Object.fromEntries(names.map((name) => [name, inputs[name]]))
}

/** What a source has written to the row. */
interface SourceWrites {
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
function toColumnStates(
  source: Source,
  current: RowValues,
  writers: readonly SourceWrites[],
  { isErased = false, names }: { readonly isErased?: boolean; readonly names: ServiceNames },
): ColumnState[] {
  const policies = new Map(source.outputs.map((output) => [output.column, output.mapping.policy]))
  return current.cells.map(({ column, value, blank }) => {
    const writer = blank ? undefined : writers.find((writer) => holdsWrite(writer, column, value))
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
function toRowChange(
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
