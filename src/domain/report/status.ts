import { z } from 'zod'
import { Delivery, Job, type JobState } from '../job.ts'
import { Run } from '../run.ts'
import type { CalledEndpoint } from '../spend.ts'
import { rowStates } from './run.ts'
import { is, object, spend, mapKeys, type ReportOf } from './shape.ts'

/** What is wrong now, in words: a sentence each, or a few. */
export type ReportedCondition = ReportOf<typeof condition>
const condition = object({
  kind: is.text('its name, in docs/notifications.md'),
  service: is.orNull(is.text('the service at fault')),
  source: is.orNull(is.text('the source, or several; of a late schedule, the schedule')),
  severity: is.text<'error' | 'warning'>('`error` or `warning`'),
  since: is.time('when it began'),
  title: is.text('what happened'),
  meaning: is.text('what it means for the rows'),
  mend: is.text('what to do'),
  proof: is.text('the command that proves it'),
})

const JOB_STATE_MEANINGS: Readonly<Record<JobState, string>> = {
  submitting: 'about to be posted',
  submitted: 'accepted; its results are expected',
  completed: 'delivered',
  unread: 'delivered, with results that name no input, as none ever did; the next run reads them again',
  failed: 'delivered as failed',
  in_doubt: 'posted without an answer: it may have been accepted',
  rejected: 'not accepted; its inputs are requested singly',
  expired: 'not delivered before its deadline; its inputs are requested singly',
}

const storedRun = object({
  id: is.count('its number'),
  trigger: z
    .enum(['manual', 'schedule', 'follow', 'backfill'])
    .describe(
      'what started it: a person or program, the schedule, a change of a followed table, its first pass',
    ),
  sources: is.texts('the sources that it picked from'),
  options: is.anything('its options: `limit`, `route`, `where`'),
  state: z.enum(Object.values(Run)).describe('state of the run'),
  reason: is.orNull(is.text('why it ended as it did; null: nothing more to say')),
  started_at: is.time('when it started'),
  finished_at: is.orNull(is.time('when it ended; null: it runs')),
  cancelled_by: is.orNull(is.text('who cancelled it; null: it was not cancelled')),
  totals: is.anything('the object that the run printed, without values of rows; null: it runs, or died'),
  version: is.orNull(is.text('the version of Fillrate that made it; null: one that did not store it')),
})

/** A source that no run picks from until it is resumed. */
export type PausedSource = ReportOf<typeof pausedSource>
const pausedSource = object({
  source: is.text('its name'),
  paused_at: is.time('when it was paused'),
  paused_by: is.text('who paused it: a user of the command line, or the name of a dashboard token'),
  reason: is.orNull(is.text('why; null: none was given')),
})

/** A source whose writes wait for its limit. */
export type SlowedWrites = ReportOf<typeof slowedWrites>
const slowedWrites = object({
  source: is.text('its name'),
  per_hour: is.count('rows that may be written in an hour'),
})

/** A source that is not in the configuration, and of which rows or other work are kept. */
export type RetiredSource = ReportOf<typeof retiredSource>
const retiredSource = object({
  source: is.text('its name'),
  rows: is.count('rows picked while it was configured'),
  waiting: is.count('of these, waiting'),
  failed: is.count('of these, not enriched'),
  deleted: is.count('rows beside these that its table had lost'),
})

/** Rows that their table no longer has: in none of the other counts. */
export type DeletedRowsStatus = ReportOf<typeof deletedRows>
const deletedRows = object({
  source: is.text('its name'),
  is_kept: is.boolean('they are kept; otherwise they are erased'),
  rows: is.count('rows'),
  hidden: is.count('of these, rows that row-level security may only hide'),
  since: is.time('when the first of them was noticed'),
  held: is.orNull(
    is.text('why they are not erased; null: they are, an hour after they were noticed, or they are kept'),
  ),
})

/** What is left of a budget. */
export type BudgetReport = ReportOf<typeof budget>
const budget = object({
  kind: z
    .enum(['run', 'schedule', 'live_sync'])
    .describe('whose budget: of a run in progress, or of live sync today'),
  unit: is.orAbsent(z.literal('credit').describe('what it counts, if not lookups')),
  run: is.orNull(is.count('the run; null: a budget of the day')),
  limit: is.orNull(is.count('in lookups or `unit`; null: unlimited')),
  spent: is.number('billed, or in doubt because the answer was lost'),
  left: is.orNull(
    is.number('of the limit, without what is spent and what calls under way may cost; null: unlimited'),
  ),
})

const amounts = {
  today: spend.describe('since midnight UTC'),
  last_30_days: spend.describe('of the last 30 days, today included'),
}

/**
 * The requests to the service, their cost, and what is left of each budget. Requests are counted with
 * each answer, killed and running runs included. Days are in UTC.
 */
export type SpendReport = ReportOf<typeof spendReport>
const spendReport = object({
  ...amounts,
  services: is.orAbsent(
    is.list(
      'by service, each at its own price; only where this database knows several',
      object({
        service: is.text('its name in the configuration, or its address'),
        host: is.text('its address'),
        ...amounts,
      }),
    ),
  ),
  budgets: is.list('what is left of each budget', budget),
})

/** The last report of the leader of a rate limit. */
export type RateReport = ReportOf<typeof rate>
const rate = object({
  state: is.text('state of the limiter, in docs/rate.md'),
  limit: is.orNull(is.count('calls in a window; null: unknown')),
  window_ms: is.orNull(is.number('length of the window in milliseconds; null: unknown')),
  used: is.count('calls counted since the limiter started'),
  permitted: is.orNull(
    is.number('calls that the limit would have permitted while there was work; null: unknown'),
  ),
  utilisation: is.orNull(is.number('`used` of `permitted`, 0 to 1; null: unknown')),
  window_used: is.count('calls in the present window'),
  next_window_at: is.orNull(is.time('when the next window begins; null: unknown')),
  stall_reason: is.orNull(is.text('why calls wait; null: they do not')),
  throttled: is.count('calls answered 429'),
  shared_key: is.boolean('another client seems to use the key'),
  overstated: is.orNull(
    object({
      endpoint: is.orNull(
        is.text<CalledEndpoint>('whose calls it limits: person, company, bulk or poll; null: all'),
      ),
      limit: is.count('calls in a window, as the description states it'),
      window_ms: is.number('length of that window in milliseconds'),
      granted: is.count('about how many of these calls the service grants'),
    }).describe('a limit that is stated higher than what the service grants; null: none'),
  ),
  beside: is.orNull(
    object({
      limit: is.count('calls'),
      window_ms: is.number('in any span of this length in milliseconds'),
    }).describe(
      'what refusals have shown of a limit that no header states, beside the one of the headers; null: nothing',
    ),
  ),
  reported_at: is.time('when the leader reported this'),
  live: is.boolean('the leader still holds its lease'),
})

/** The limit of a key of a service. */
export type RateLimitReport = ReportOf<typeof rateLimit>
const rateLimit = object({
  service: is.text('its name; of the only one, its host'),
  limit: is.count('calls in a window'),
  window_ms: is.orNull(is.number('length of the window in milliseconds; null: unknown')),
  observed_at: is.time('when the limit was last seen'),
  status: is.orNull(rate.describe('the last report of the leader; null: none yet')),
})

/** How many rows of a source have a value in each output. */
export type FillCounts = ReportOf<typeof fillCounts>
const fillCounts = object({
  eligible: is.count('rows that the filter and joins let in, and that have a key'),
  columns: is.list(
    'the outputs of all services, in the order of the configuration',
    object({
      column: is.text('column of the table'),
      filled: is.count('eligible rows in which it is not blank'),
    }),
  ),
})

/** The same, with the time of the count. */
export type MeasuredFillCounts = ReportOf<typeof measuredFillCounts>
const measuredFillCounts = fillCounts.extend({ measured_at: is.time('when a run counted it') })

/** The status, as the text has it: what JSON has beside it is printed apart. */
export type StatusReport = ReportOf<typeof statusReport>
export const statusReport = object({
  conditions: is.list('what is wrong now, the gravest kind first; empty: everything works', condition),
  rows: is.byName(
    'rows ever picked, by source',
    object({ total: is.count('rows ever picked: the sum of the others'), ...rowStates }),
  ),
  jobs: object(
    mapKeys(Object.values(Job), (state) => is.orAbsent(is.count(`jobs ${JOB_STATE_MEANINGS[state]}`))),
  ).describe('jobs by state; a state without a job is absent'),
  deliveries: object(
    mapKeys(Object.values(Delivery), (state) => is.orAbsent(is.count(`deliveries that are ${state}`))),
  ).describe('deliveries by state; a state without a delivery is absent'),
  quarantined_results: is.count('results that matched no input of their job: kept, and not used'),
  running_runs: is.count('runs in progress'),
  last_run: is.orNull(storedRun.describe('the run that started last; null: there was none')),
  slowed_writes: is.list(
    'sources whose writes have waited in the last half minute, because more are ready than `writes` allows',
    slowedWrites,
  ),
  paused: is.list('sources from which no run picks', pausedSource),
  deleted: is.list('rows that their table no longer has, in no other count', deletedRows),
  spend: spendReport.describe('what was requested, what it costs, and what is left of the budgets'),
  retired: is.list('sources that left the configuration, in no other count', retiredSource),
  schedule: is.list(
    'the scheduled runs',
    object({
      cron: is.text('when it runs, as a cron expression'),
      timezone: is.text('time zone of `cron`'),
      sources: is.texts('what it runs'),
      budget: is.orNull(
        z.union([z.int(), z.literal('unlimited')]).describe('its budget; null: that of the configuration'),
      ),
      next: is.list('its next times', z.iso.datetime()),
    }),
  ),
  limits: is.list('the rate limits, the latest first', rateLimit),
  fill_rate: is.byName('by source; a text says why it is unknown', z.union([z.string(), measuredFillCounts])),
})
