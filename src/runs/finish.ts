import type { RunReport } from '../domain/report/run.ts'
import * as runs from '../store/runs.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { describeError } from '../util/error-text.ts'
import type { RateStatus } from '../domain/rate-status.ts'
import { describeInterruption, Run, type RunStatus, type Trigger } from '../domain/run.ts'
import { describeCondition, type ConditionKind } from '../domain/condition.ts'
import { LEASE_MS, type Deps } from '../pipeline/deps.ts'
import type { Preview } from '../pipeline/write-back.ts'
import { SourceProblems, squashText } from '../sources/problems.ts'
import { expiresAfterAbort, isTransient, retryWhileUnavailable, inTransaction } from '../store/transaction.ts'
import { hasWorkUnderWay } from '../store/run-progress.ts'
import { formatDuration, pluralize, listNames } from '../util/text.ts'
import { logWait } from './loop.ts'
import {
  firstOf,
  listLeftOutOf,
  type Outage,
  type RunObservations,
  type RunDeps,
  type ServicePart,
} from './run-part.ts'
import { createRunReport, withoutValues } from './report.ts'
import { deleteUnneeded } from '../store/pending-lookups.ts'
import { UnauthorizedError } from '../service/errors.ts'

/** What is closed of a run. */
interface EndingRun {
  readonly id: number
  readonly token: string
  readonly trigger: Trigger
  /** Of a dry run, what it would have written. Absent: it is none. */
  readonly preview?: Preview | null
  readonly parts: readonly ServicePart<PartDeps>[]
  /** By `performance.now()`. */
  readonly startedAt: number
  readonly observations: RunObservations
}

type PartDeps = Pick<RunDeps, 'db' | 'log' | 'policy' | 'elector' | 'metrics'>
type EndingPart = ServicePart<PartDeps>

/**
 * Reports and closes a run.
 * @throws the error that ended it, after it was stored as failed
 */
export async function finishRun(
  run: EndingRun,
  options: {
    readonly signal: AbortSignal
    readonly rateOf: (part: EndingPart) => RateStatus | null
    /** Its workers do the steps of other runs, too. */
    readonly areWorkersShared: boolean
  },
): Promise<RunReport> {
  const { id, token, trigger, preview = null, parts } = run
  const { db, log, metrics } = firstOf(parts).deps
  const { signal, rateOf } = options
  const failure = findFailure(run)
  const ends = parts.map((part) => decideEnd(part, run, signal))
  const status = BY_SEVERITY.find((state) => ends.some((end) => end.status === state)) ?? 'completed'
  // When interrupted while Postgres is unavailable, wait no longer than the lease lasts: the next run finds this one
  // dead.
  const whileAway = {
    giveUp: expiresAfterAbort(signal, LEASE_MS),
    onWait: logWait(log, { step: 'end' }),
  }
  const scopes = await retryWhileUnavailable(() => runs.listOtherScopes(db, id), whileAway)
  const reason = describeEnd(joinReasons(ends), run, scopes)
  const ended = {
    id,
    status,
    reason,
    parts: ends.map((end) => ({ ...describePart(end), rate: rateOf(end.part) })),
    columns: filledColumns(parts),
    leftOut: listLeftOutOf(parts),
    unread: [...run.observations.unreadSources].sort(),
    cancelledBy: run.observations.cancelledBy,
    areWorkersShared: options.areWorkersShared,
    durationMs: performance.now() - run.startedAt,
    preview,
  }
  const report = await retryWhileUnavailable(() => createRunReport(db, ended), whileAway)
  const state = END_STATES[status]
  const worst = ends.find((end) => end.status === status)
  const closed = {
    state,
    reason,
    totals: withoutValues(report),
    failedFor: worst === undefined ? null : findFailureCause(worst, run),
    failedScope: worst?.part.deps.elector.scope ?? null,
  }
  const isClosed = await retryWhileUnavailable(
    () =>
      inTransaction(db, async (tx) => {
        if (!(await runs.closeRun(tx, id, token, closed))) return false
        if (preview !== null) await deleteUnneeded(tx)
        return true
      }),
    whileAway,
  )
  if (isClosed) metrics?.recordRun(trigger, status)
  else log.warn({ event: 'run_lease_lost', run: id }, 'run lost its lease; its rows were taken over')
  const fields = { run: id, status, reason, rows: report.rows, requests: report.requests }
  if (state === Run.failed) log.error({ event: 'run_failed', ...fields }, 'run ended')
  else log.info({ event: 'run_ended', ...fields }, 'run ended')
  if (failure !== undefined) throw failure
  return report
}

/** What the report says of a service. */
const describePart = ({ part, status, reason }: EndedPart) => ({
  name: part.name,
  service: part.service,
  status,
  reason,
  price: part.deps.policy.price,
  rowsSkipped: part.budget.rowsSkipped,
  unread: part.budget.unreadSources,
})

const filledColumns = (parts: readonly EndingPart[]): Readonly<Record<string, readonly string[]>> =>
  Object.fromEntries(
    parts.flatMap(({ sources }) =>
      sources.map(({ name, outputs, allOutputs = outputs }) => [
        name,
        allOutputs.map(({ column }) => column),
      ]),
    ),
  )

/** What ended the run as a whole: a step that is no service's, or a step of every service. */
function findFailure({ observations, parts }: EndingRun): unknown {
  const failed = parts.flatMap(({ failures: [failure] }) => (failure === undefined ? [] : [failure]))
  return observations.failures[0] ?? (failed.length === parts.length ? failed[0] : undefined)
}

/** How a service ended its part of a run. */
interface EndedPart {
  readonly part: EndingPart
  readonly status: RunStatus
  readonly reason: string | null
}

/** What needs a person first. */
const BY_SEVERITY: readonly RunStatus[] = [
  'failed',
  'unauthorized',
  'misconfigured',
  'interrupted',
  'out_of_credits',
  'budget_reached',
  'completed',
]

/** The reasons of the services, each with its name unless it is that of all. Pure. */
function joinReasons(ends: readonly EndedPart[]): string | null {
  const reasons = new Set(ends.map(({ reason }) => reason))
  if (reasons.size === 1) return ends[0]?.reason ?? null
  const texts = ends.flatMap(({ part: { name }, reason }) => (reason === null ? [] : [`${name}: ${reason}`]))
  return texts.join('; ') || null
}

/** Waits for what a cancelled run has in flight: its workers may be shared, or belong to another process. */
export async function finishWorkUnderWay({ db }: Pick<Deps, 'db'>, id: number): Promise<void> {
  const until = performance.now() + LEASE_MS / 2
  while (performance.now() < until) {
    if (!(await hasWorkUnderWay(db, id).catch(() => true))) return
    await sleep(200)
  }
}

const END_STATES = {
  completed: Run.completed,
  budget_reached: Run.completed,
  out_of_credits: Run.completed,
  interrupted: Run.interrupted,
  unauthorized: Run.failed,
  misconfigured: Run.failed,
  failed: Run.failed,
} as const satisfies Record<RunStatus, string>

/** Why the run ended like this, and what it left. Null: there is nothing to say. Pure. */
function describeEnd(
  status: string | null,
  { observations, parts, preview }: EndingRun,
  otherScopes: readonly string[],
): string | null {
  const texts = [
    status,
    ...describeLeftOut(parts),
    preview ? describeOtherRuns(observations) : null,
    describeSample(observations),
    parts.every(isUnanswered) ? null : describeLeftover(observations),
    describeUnread(observations),
    describePaused(observations),
    ...describeDeleted(observations),
    describeOtherScopes(otherScopes),
  ]
  return texts.filter((text) => text !== null).join('; ') || null
}

const describeOtherRuns = ({ leftover: { others } }: RunObservations): string | null =>
  others > 0 ? `${others} rows of the same sources belong to another run and are not included` : null

const describeSample = ({ sampledSources }: RunObservations): string | null =>
  sampledSources.size === 0
    ? null
    : `the rows are a random sample of ${[...sampledSources].sort().join(', ')}`

/** The service is down, which says why rows wait. */
const isUnanswered = ({ outage }: EndingPart): boolean =>
  outage !== null && (outage.isTooLong || !outage.wasAnswered || outage.cause === 'out_of_credits')

/** What still waits, why, and who continues with it. */
function describeLeftover({ leftover: { later, laterAt, locked } }: RunObservations): string | null {
  const rows = (count: number): string => `${count} ${count === 1 ? 'row waits' : 'rows wait'}`
  const lockedText =
    locked === 0
      ? null
      : `${rows(locked)} because other transactions have locked them, or Postgres lacks resources to write them: the next run writes them without a call`
  if (later === 0) return lockedText
  const at = laterAt === null ? '' : `, from ${laterAt.toISOString().slice(0, 16).replace('T', ' ')} UTC on`
  const laterText = `${rows(later)} for the retry of a failed call: the next run makes it${at}`
  return lockedText === null ? laterText : `${laterText}; ${lockedText}`
}

const describeOtherScopes = (scopes: readonly string[]): string | null =>
  scopes.length === 0
    ? null
    : `a run with another service or key (${scopes.join(', ')}) used this database: its rows and lookups were left to it`

function describeUnread({ unreadSources }: RunObservations): string | null {
  if (unreadSources.size === 0) return null
  const sourceNames = [...unreadSources].sort().join(', ')
  return `${sourceNames} could not be read to the end because another transaction has locked the table: the next run continues`
}

function describePaused({ pausedSources }: RunObservations): string | null {
  if (pausedSources.size === 0) return null
  const sourceNames = [...pausedSources].sort().join(', ')
  return `${sourceNames} ${pausedSources.size === 1 ? 'is' : 'are'} paused and not picked: \`fillrate resume\` ends that`
}

const describeLeftOut = (parts: readonly EndingPart[]): string[] =>
  listLeftOutOf(parts).map(
    ({ source, problem }) =>
      `${source} is broken and was left out (${problem}): \`fillrate check ${source}\` says what to do`,
  )

/** Rows that the table no longer has. */
const describeDeleted = ({ deletedRows }: RunObservations): string[] =>
  [...deletedRows].flatMap(([source, { deleted, restored, held }]) => [
    ...(deleted > 0
      ? [
          `${source}: ${pluralize(deleted, 'row')} ${deleted === 1 ? 'was' : 'were'} deleted from the table, and ${deleted === 1 ? 'is' : 'are'} no longer counted`,
        ]
      : []),
    ...(restored > 0 ? [`${source}: ${pluralize(restored, 'deleted row')} came back`] : []),
    ...(held === null ? [] : [`${source}: ${held}`]),
  ])

/** How a service's part of the run ended, with what it left. Pure. */
function decideEnd(
  part: EndingPart,
  { observations }: EndingRun,
  { aborted: interrupted, reason: cause }: AbortSignal,
): EndedPart {
  const end = (status: RunStatus, reason: string | null): EndedPart => ({ part, status, reason })
  const [failure] = [...observations.failures, ...part.failures]
  if (failure !== undefined) return end('failed', failureSummary(failure))
  const { fatalError } = part
  if (fatalError !== null)
    return end(fatalError instanceof UnauthorizedError ? 'unauthorized' : 'misconfigured', fatalError.message)
  if (interrupted || observations.cancelledBy !== null)
    return end('interrupted', describeInterruption(observations.cancelledBy, cause))
  const { outage } = part
  if (outage?.cause === 'out_of_credits') return end('out_of_credits', describeUnanswered(part, outage))
  if (part.isOutOfCredits) return end('out_of_credits', 'The account at the service has no credits left')
  // Otherwise a wrong address would look like a run that found nothing.
  if (outage !== null && !outage.wasAnswered) return end('failed', describeUnanswered(part, outage))
  const tooLong = outage?.isTooLong
    ? `the service has not responded for ${formatDuration(outage.ms)}: the next run requests what waits`
    : null
  const left = tooLong ?? (part.longPause && `${part.longPause}; the next run requests what waits`)
  if (!part.budget.isReached) return end('completed', left)
  const spent = describeBudget(part, observations)
  return end('budget_reached', left === null ? spent : `${spent}; ${left}`)
}

/** The kind of condition for which a run failed; null: it did not, or for a reason of its own. */
function findFailureCause(
  { part: { outage, failures }, status }: EndedPart,
  { observations }: EndingRun,
): ConditionKind | null {
  const [failure] = [...observations.failures, ...failures]
  if (status === 'unauthorized') return 'key_refused'
  if (status !== 'failed') return null
  if (failure !== undefined) return isTransient(failure) ? 'database_away' : null
  return outage?.cause === 'out_of_credits' ? 'out_of_credits' : 'service_failing'
}

/** The service answers nothing: it is down, the address is wrong, or the account has no credits left. */
function describeUnanswered(
  { name }: Pick<EndingPart, 'name'>,
  { scope, cause, reason, waiting }: Pick<Outage, 'scope' | 'cause' | 'reason' | 'waiting'>,
): string {
  // The only service has no name.
  const service = name === '' ? (scope.split(' ')[0] ?? null) : name
  const kind = cause === 'out_of_credits' ? cause : 'service_failing'
  const details = { cause, reason: reason ?? undefined }
  const condition = { kind, service, source: null, details } as const
  return `${describeCondition(condition, 0).title}; ${pluralize(waiting, 'row')} will be retried automatically`
}

/** What is left, as far as it was read. */
function describeBudget({ budget }: EndingPart, observations: RunObservations): string {
  const { rowsSkipped, rowsAwaitingBudget } = budget
  // A sample is described as such.
  const unread = budget.unreadSources.filter((name) => !observations.sampledSources.has(name))
  const isUnread = budget.unreadSources.length > 0
  const { statedCost } = budget
  return [
    `Stopped at the budget of ${budget.describe(budget.runLimit ?? 0)}`,
    ...(statedCost === null ? [] : [`an answer has stated a cost of ${budget.describe(statedCost)}`]),
    ...(rowsSkipped > 0
      ? [
          `${isUnread ? 'at least ' : ''}${pluralize(rowsSkipped, 'row')} ${rowsSkipped === 1 ? 'remains' : 'remain'}`,
        ]
      : []),
    ...(rowsAwaitingBudget > 0
      ? [
          `${pluralize(rowsAwaitingBudget, 'row')} ${rowsAwaitingBudget === 1 ? 'waits' : 'wait'} for the next lookup`,
        ]
      : []),
    ...(unread.length > 0 ? [`not read to the end: ${listNames(unread)}`] : []),
  ].join('; ')
}

/** One line for lists and logs; the promise of the run rejects with the whole error. */
function failureSummary(failure: unknown): string {
  if (failure instanceof SourceProblems)
    return failure.problems
      .map(({ source, place, found }) => squashText(`${source}.${place}: ${found}`))
      .join('; ')
  return describeError(failure)
}
