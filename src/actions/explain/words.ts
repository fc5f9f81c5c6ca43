import { BY_KIND, type LookupKind } from '../../domain/identifiers/kind.ts'
import type { ColumnState, LookupSummary, RowChange, RowHistory } from '../../domain/report/explain.ts'
import { formatState } from '../../domain/row.ts'
import { POLICY_RULES } from '../../domain/mapping.ts'
import { pluralize, relativeTime } from '../../util/text.ts'
import { describeExclusion } from './next-step.ts'

/** A label, a text, and what more there is to say. */
type Fact = readonly [label: string, text: string, more?: string]

const joinTexts = (texts: readonly (string | false | null | undefined)[]): string =>
  texts.filter((text) => text !== false && text !== null && text !== undefined).join(', ')

/** A remark on the state of a row. */
interface RowNote {
  readonly text: string
  readonly style: 'warn' | 'bad' | null
}

/** What is to be said of a row beside its state. */
export function listRowNotes({ state, row }: RowHistory): RowNote[] {
  const { join_count: joined, problem } = row
  const exclusion = describeExclusion(row)
  const reason = state?.reason ?? ''
  const unused = row.input_notes
    .map((note) => `${note.input}: ${note.reason}`)
    .filter((note) => !reason.includes(note))
  const notes: ReadonlyArray<readonly [isSaid: boolean, text: string, style?: RowNote['style']]> = [
    [reason !== '', reason],
    [unused.length > 0, `not looked up by: ${unused.join('; ')}`],
    [!row.exists, 'the row is deleted', 'warn'],
    [exclusion !== null, exclusion ?? '', 'warn'],
    [joined > 1, `the joins return ${joined} rows for this key; expected one`, 'bad'],
    [problem !== null, `an expression of the source fails for this row: ${problem}`, 'bad'],
    [state?.inputs_changed === true, 'its inputs have changed since'],
  ]
  return notes.flatMap(([isSaid, text, style = null]) => (isSaid ? [{ text, style }] : []))
}

/** Whose value a column has. */
export function describeOrigin(
  { policy, blank, written_by_fillrate, written_by_source: writer, written_by: by, service }: ColumnState,
  source: string,
): string {
  if (blank) return policy === null ? '' : 'blank'
  if (written_by_fillrate)
    return joinTexts([
      by === null ? 'Fillrate' : `run ${by}`,
      service,
      writer !== source && `source ${writer}`,
    ])
  if (policy === null) return ''
  if (written_by_fillrate === null) return 'not known any more: erased'
  return POLICY_RULES[policy].replacesOthers ? 'not Fillrate, overwritten' : 'not Fillrate, protected'
}

/** The lookups of a row, with the job of the last one. */
export function listLookupFacts(
  { lookup, missed_lookups: missed, job, row }: RowHistory,
  now: number,
): Fact[] {
  const malformed = lookup?.malformed_response ?? null
  const next = row.is_suppressed
    ? 'none: its identifier was erased and is never looked up again'
    : row.excluded_by !== null
      ? 'none while it is excluded'
      : row.lookup_request === null
        ? 'no valid input'
        : `not yet; next lookup ${describeRequest(row.lookup_request)}`
  const facts: readonly (Fact | false | null)[] = [
    ...missed.map((miss): Fact => ['Before', describeWithService(miss), describeResult(miss, now)]),
    lookup === null && row.exists && ['Lookup', next],
    lookup && ['Lookup', describeWithService(lookup), describeCalls(lookup, now)],
    lookup && ['Result', describeResult(lookup, now)],
    malformed && ['Malformed', ...describeMalformed(malformed, now)],
    job && [
      'Job',
      `${job.job_id ?? job.key}, ${pluralize(job.size, 'input')}`,
      joinTexts([formatState(job.state), formatJobEnd(job, now), job.reason]),
    ],
  ]
  return facts.filter((fact) => fact !== false && fact !== null)
}

const describeRequest = ({
  kind,
  input,
}: {
  kind: LookupKind
  input: Readonly<Record<string, string>>
}): string => `${BY_KIND[kind]}: ${Object.values(input).join(', ')}`

/** With its service, if the database knows several. */
const describeWithService = (lookup: LookupSummary): string =>
  `${lookup.service === undefined ? '' : `${lookup.service} `}${describeRequest(lookup)}`

function describeCalls(lookup: LookupSummary, now: number): string {
  const { attempts, run, requested_at: at, rows, job, unconfirmed_calls: inDoubt } = lookup
  const calls = attempts > 0 ? pluralize(attempts, 'call') : job !== null && 'in a job'
  return joinTexts([
    at !== null && calls,
    at === null ? 'not requested yet' : `requested ${relativeTime(at, now)}`,
    run !== null && `by run ${run}`,
    inDoubt > 0 && `${pluralize(inDoubt, 'call')} in doubt`,
    rows > 1 && `shared by ${pluralize(rows, 'row')}`,
  ])
}

function describeResult(lookup: LookupSummary, now: number): string {
  const { state, reason, confidence, resolved_at: at, refresh_at: due, not_before: later } = lookup
  const { went_on: why } = lookup
  return joinTexts([
    formatState(state),
    confidence !== null && `confidence ${confidence}`,
    reason,
    at && relativeTime(at, now),
    later && `not before ${relativeTime(later, now)}`,
    due && (due.getTime() <= now ? 'due' : `due for refresh ${relativeTime(due, now)}`),
    why !== undefined && `went on because ${why}`,
  ])
}

/** Characters shown; `--json` has the stored body. */
const EXCERPT_LENGTH = 200

function describeMalformed(
  response: NonNullable<LookupSummary['malformed_response']>,
  now: number,
): [text: string, more: string] {
  const body = response.body.replaceAll(/\s+/g, ' ').trim()
  const shown = body.length > EXCERPT_LENGTH ? `${body.slice(0, EXCERPT_LENGTH - 1)}…` : body
  const received = `HTTP ${response.status} ${relativeTime(new Date(response.received_at), now)}`
  return [body === '' ? 'empty body' : shown, received]
}

/** `run 5, 2 min ago, undo of run 3, undone by run 6 except title`. */
export function describeChange(
  { run, service, written_at: at, undoes, undone_by: by, cells }: RowChange,
  now: number,
): string {
  const left = cells.filter((cell) => !cell.undone).map((cell) => cell.column)
  return joinTexts([
    run === null ? 'a deleted run' : `run ${run}`,
    service !== undefined && `${undoes === null ? 'from' : 'of'} ${service}`,
    relativeTime(at, now),
    undoes !== null && `undo of run ${undoes}`,
    by !== null && `undone by run ${by}${left.length === 0 ? '' : ` except ${left.join(', ')}`}`,
  ])
}

/** When the job finished, or its deadline. */
const formatJobEnd = (
  job: { readonly finished_at: Date | null; readonly deadline_at: Date },
  now: number,
): string =>
  job.finished_at === null ? `due ${relativeTime(job.deadline_at, now)}` : relativeTime(job.finished_at, now)
