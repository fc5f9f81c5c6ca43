import { setTimeout as sleep } from 'node:timers/promises'
import { describeError } from '../util/error-text.ts'
import { CIRCUIT_TROUBLES } from '../domain/causes.ts'
import type { RateStatus } from '../domain/rate-status.ts'
import { describeInterruption, Run, type Trigger } from '../domain/run.ts'
import { describeTrouble, type TroubleCode } from '../domain/trouble.ts'
import { LEASE_MS, type Deps } from '../pipeline/deps.ts'
import type { RunBudget } from '../pipeline/pick/budget.ts'
import { EMPTY_PREVIEW, type Preview } from '../pipeline/preview.ts'
import type { ServiceError } from '../service/errors.ts'
import { SourceProblems, squashText } from '../sources/problems.ts'
import type { Source } from '../sources/source-model.ts'
import { expiresAfterAbort, isTransient, retryWhileUnavailable } from '../store/connectivity.ts'
import { hasWorkUnderWay } from '../store/run-progress.ts'
import * as runs from '../store/runs.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'
import { formatDuration, pluralize } from '../util/format.ts'
import { listNames } from '../util/text.ts'
import { logWait } from './loop.ts'
import type { Leftover, Outage } from './monitor.ts'
import type { DeletedRowsReport } from './reconcile-deleted.ts'
import type { LeftOutSource } from './source-health.ts'
import { createRunReport, type RunReport, type RunStatus, withoutValues } from './report.ts'

/** Called with the report in the transaction that closes the run. */
export type RecordRun = (
  tx: Tx,
  report: RunReport,
  run: { readonly trigger: Trigger; readonly sources: readonly string[] },
) => Promise<void>

/** What a run observes, to report at its end. */
export class RunObservations {
  readonly failures: unknown[] = []
  preview: Preview | null = null
  /** What it left to other runs when it completed. */
  leftover: Leftover = { others: 0, later: 0, laterAt: null, locked: 0, outage: null }
  /** Sources skipped, or not picked any further, because they were paused. */
  readonly pausedSources = new Set<string>()
  /** Sources not read to the end because another transaction had locked their table. */
  readonly unreadSources = new Set<string>()
  /** Sources of which a dry run read a part, at random places. */
  readonly sampledSources = new Set<string>()
  /** By name: sources that are broken. */
  readonly leftOut = new Map<string, LeftOutSource>()
  readonly deletedRows = new Map<string, DeletedRowsReport>()
  fatalError: ServiceError | null = null
  /** A call was refused because the account has no credits left: nothing more is picked. */
  isOutOfCredits = false
  /** Who has cancelled the run; null: no one. */
  cancelledBy: string | null = null
}

/**
 * Reports and closes a run.
 * @throws the error that ended it, after it was stored as failed
 */
export async function finishRun(
  deps: Pick<Deps, 'db' | 'log' | 'policy'> & { readonly recordRun: RecordRun },
  run: {
    readonly id: number
    readonly token: string
    readonly trigger: Trigger
    /** Names of the requested sources. */
    readonly named: readonly string[]
    /** It is one of several services' runs, with these sources. */
    readonly group?: { readonly sources: readonly Source[] }
    readonly budget: RunBudget
    readonly startedAt: number
    readonly observations: RunObservations
    readonly rate: RateStatus | null
  },
  options: {
    readonly signal: AbortSignal
    readonly dryRun?: object | null
    /** Shared with other runs. */
    readonly workers?: object
  },
): Promise<RunReport> {
  const { id, observations, budget, rate } = run
  const { dryRun, signal, workers } = options
  const [failure] = observations.failures
  const [status, statusReason] = decideStatus(run, failure, signal)
  // When interrupted while Postgres is unavailable, wait no longer than the lease lasts: the next run finds this one
  // dead.
  const whileAway = {
    giveUp: expiresAfterAbort(signal, LEASE_MS),
    onWait: logWait(deps.log, { step: 'end' }),
  }
  const scopes = await retryWhileUnavailable(() => runs.listOtherScopes(deps.db, id), whileAway)
  const reason = describeEnd(statusReason, observations, scopes, dryRun != null)
  const ended = {
    id,
    status,
    reason,
    rowsSkipped: budget.rowsSkipped,
    leftOut: [...observations.leftOut.values()],
    unread: [...observations.unreadSources].sort(),
    unreadOverBudget: budget.unreadSources,
    cancelledBy: observations.cancelledBy,
    rate,
    isOnlyRun: workers === undefined && rate?.isRemote !== true,
    price: deps.policy.price,
    durationMs: performance.now() - run.startedAt,
    preview: dryRun ? (observations.preview ?? EMPTY_PREVIEW) : null,
    columns: run.group
      ? Object.fromEntries(
          run.group.sources.map(({ name, outputs }) => [name, outputs.map(({ column }) => column)]),
        )
      : null,
  }
  const report = await retryWhileUnavailable(() => createRunReport(deps.db, ended), whileAway)
  const state = END_STATES[status]
  const failedFor = findFailureCause(observations, failure, status)
  const closed = { state, reason, totals: withoutValues(report), failedFor }
  const isClosed = await retryWhileUnavailable(
    () =>
      inTransaction(deps.db, async (tx) => {
        if (!(await runs.closeRun(tx, id, run.token, closed))) return false
        if (!dryRun) await deps.recordRun(tx, report, { trigger: run.trigger, sources: run.named })
        return true
      }),
    whileAway,
  )
  if (!isClosed)
    deps.log.warn({ event: 'run_lease_lost', run: id }, 'run lost its lease; its rows were taken over')
  const fields = { run: id, status, reason, rows: report.rows, requests: report.requests }
  if (state === Run.failed) deps.log.error({ event: 'run_failed', ...fields }, 'run ended')
  else deps.log.info({ event: 'run_ended', ...fields }, 'run ended')
  if (failure !== undefined) throw failure
  return report
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
  failed: Run.failed,
} as const satisfies Record<RunStatus, string>

/** Why the run ended like this, and what it left. Null: there is nothing to say. Pure. */
function describeEnd(
  status: string | null,
  observations: RunObservations,
  otherScopes: readonly string[],
  isDryRun: boolean,
): string | null {
  const texts = [
    status,
    ...describeLeftOut(observations),
    isDryRun ? describeOtherRuns(observations) : null,
    describeSample(observations),
    describeLeftover(observations),
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

/** What still waits, why, and who continues with it. */
function describeLeftover({ leftover: { later, laterAt, locked, outage } }: RunObservations): string | null {
  const rows = (count: number): string => `${count} ${count === 1 ? 'row waits' : 'rows wait'}`
  const lockedText =
    locked === 0
      ? null
      : `${rows(locked)} because other transactions have locked them, or Postgres lacks resources to write them: the next run writes them without a call`
  if (outage !== null && (!outage.wasAnswered || outage.cause === 'out_of_credits')) return null
  if (outage?.isTooLong)
    return `the service has not responded for ${formatDuration(outage.ms)}: the next run requests what waits`
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

const describeLeftOut = ({ leftOut }: RunObservations): string[] =>
  [...leftOut.values()].map(
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

function decideStatus(
  run: { readonly budget: RunBudget; readonly observations: RunObservations },
  failure: unknown,
  { aborted: interrupted, reason: cause }: AbortSignal,
): [RunStatus, string | null] {
  if (failure !== undefined) return ['failed', failureSummary(failure)]
  if (run.observations.fatalError !== null) return ['unauthorized', run.observations.fatalError.message]
  if (interrupted || run.observations.cancelledBy !== null)
    return ['interrupted', describeInterruption(run.observations.cancelledBy, cause)]
  const { outage } = run.observations.leftover
  if (outage?.cause === 'out_of_credits') return ['out_of_credits', describeUnanswered(outage)]
  if (run.observations.isOutOfCredits)
    return ['out_of_credits', 'The account at the service has no credits left']
  // Otherwise a wrong address would look like a run that found nothing.
  if (outage !== null && !outage.wasAnswered) return ['failed', describeUnanswered(outage)]
  if (run.budget.isReached) return ['budget_reached', describeBudget(run)]
  return ['completed', null]
}

/** The trouble for which a run failed; null: it did not, or for a reason of its own. */
function findFailureCause(
  { leftover: { outage } }: RunObservations,
  failure: unknown,
  status: RunStatus,
): TroubleCode | null {
  if (status === 'unauthorized') return 'key_refused'
  if (status !== 'failed') return null
  if (failure !== undefined) return isTransient(failure) ? 'database_away' : null
  return outage === null ? 'circuit_open' : CIRCUIT_TROUBLES[outage.cause]
}

/** The service answers nothing: it is down, the address is wrong, or the account has no credits left. */
function describeUnanswered({
  scope,
  cause,
  reason,
  waiting,
}: Pick<Outage, 'scope' | 'cause' | 'reason' | 'waiting'>): string {
  const details = { reason: reason ?? undefined, waiting }
  const { title, meaning } = describeTrouble({ code: CIRCUIT_TROUBLES[cause], subject: scope, details }, 0)
  return `${title}. ${meaning.split('. ')[0] ?? ''}`.replace(/\.$/, '')
}

/** What is left, as far as it was read. */
function describeBudget({ budget, observations }: Parameters<typeof decideStatus>[0]): string {
  const { rowsSkipped, rowsAwaitingBudget } = budget
  // A sample is described as such.
  const unread = budget.unreadSources.filter((name) => !observations.sampledSources.has(name))
  const isUnread = budget.unreadSources.length > 0
  return [
    `Stopped at the ${budget.describeSpent()}`,
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
