import { z } from 'zod'
import type { SkipReason } from '../skipped-cell.ts'
import { ROW_STATE_FACTS, ROW_STATES } from '../row.ts'
import { RUN_STATUSES } from '../run.ts'
import { is, object, spend, mapKeys, type ReportOf } from './shape.ts'

export const rowStates = mapKeys(ROW_STATES, (state) => is.count(ROW_STATE_FACTS[state].meaning))

/** A source that a run left out. */
export type LeftOutSource = ReportOf<typeof leftOutSource>
export const leftOutSource = object({
  source: is.text('its name'),
  problem: is.text('what `fillrate check` finds, in one line'),
  mend: is.text('what to do about it'),
}).meta({ id: 'left-out-source' })

/** One row before and after a write, as far as that is known without writing: before any trigger. */
export type DiffRow = ReportOf<typeof diffRow>
const diffRow = object({
  source: is.text('its source'),
  key: is.text('its key, as text'),
  confidence: is.orNull(is.number('confidence of the record, 0 to 1; null: it has none')),
  cells: is.list(
    'cells that change',
    object({
      column: is.text('column of the table'),
      before: is.anything('value before; null: NULL'),
      after: is.anything('value after; null: NULL'),
      service: is.orAbsent(is.text('the service whose record has the value; absent with one service')),
    }),
  ),
}).meta({ id: 'diff-row' })

/** What a run would write. */
export type DryRunReport = ReportOf<typeof dryRun>
const dryRun = object({
  columns: is.list(
    'cells that would be written, by column, in the order of the configuration, without `touch` columns',
    object({
      source: is.text('its source'),
      column: is.text('column of the table'),
      written: is.count('cells that would be written'),
    }),
  ),
  sample: is.list('some of the rows that would be written, at random, evenly from each source', diffRow),
})

/** Skipped cells of one column and reason, with the most frequent of their values. */
export type SkippedGroup = ReportOf<typeof skippedGroup>
const skippedGroup = object({
  source: is.text('its source'),
  column: is.text('column of the table'),
  reason: is.text<SkipReason>('why the value was not written, as a name: `too_long`'),
  detail: is.orNull(is.text('constraint, bound or error; null: the reason says all')),
  description: is.text('reason and detail in words'),
  rows: is.count('rows with such a cell'),
  distinct_values: is.count('different values'),
  values: is.list(
    'the most frequent values, at most 25, the most frequent first; none in the stored report',
    object({ value: is.anything('as the service sent it'), rows: is.count('rows with this value') }),
  ),
}).meta({ id: 'skipped-group' })

/** What a run reports as a whole, and of each of several services. */
const parts = {
  status: z
    .enum(RUN_STATUSES)
    .describe(
      'how it ended; `unauthorized`: the service rejects the key; `misconfigured`: a setting or the description of the service is wrong; `out_of_credits`: the account has none left',
    ),
  reason: is.orNull(is.text('why it ended so; null: nothing more to say')),
  lookups: is.counts('the lookups of the rows', {
    distinct: 'different lookups that the rows need, those without a match included',
    stored: 'answered without a call of this run',
    requested: 'requested by this run',
    found: 'answered with a record',
    not_found: 'answered without a record',
    rejected: 'whose input the service rejects',
    failed: 'that failed at every attempt',
    // Lost calls, calls of a killed process, jobs posted again after a 500, and inputs for which a job delivered no result.
    in_doubt: 'requested without an answer: the service may have billed them',
  }),
  spend: spend.describe('what the service bills for it'),
  cells: is.counts('cells of the rows with a record', {
    written: 'cells written',
    protected: 'cells left, because they hold a value that the policy protects',
    skipped: 'cells left, because the value does not fit',
  }),
  rate: object({
    limit: is.orNull(is.count('calls in a window; null: unknown')),
    window_ms: is.orNull(is.number('length of the window in milliseconds; null: unknown')),
    banned: is.orAbsent(
      is.boolean('the service has banned the key for a while, because of calls beyond the limit'),
    ),
    used: is.count('calls counted against the limit'),
    permitted: is.orNull(
      is.number('calls that the limit would have permitted while there was work; null: unknown'),
    ),
    utilisation: is.orNull(is.number('`used` of `permitted`, 0 to 1; null: unknown')),
    shared_key: is.orAbsent(is.boolean('another client seems to use the key')),
  }).describe('the rate limit during the run'),
}

/** What one of several services did in a run. */
export type ServiceReport = ReportOf<typeof serviceReport>
const serviceReport = object({
  service: is.text('its name'),
  rows: is.count('rows that ended with it, or wait for it: the others have gone on to the next one'),
  ...parts,
})

/**
 * What a run did. The row states add up to `picked`. Stored with the run, and printed by `run --json`.
 * @example
 * const { status, rows } = await fillrate.run({ budget: 1_000 })
 * console.log(status, `${rows.enriched} of ${rows.picked}`)
 */
export type RunReport = ReportOf<typeof runReport>
export const runReport = object({
  run: is.count('its number'),
  ...parts,
  cancelled_by: is.orAbsent(is.text('who cancelled it')),
  rows: object({ picked: is.count('rows picked: the sum of the others'), ...rowStates }).describe(
    'rows by state',
  ),
  rows_by_source: is.orAbsent(
    is.byName('the rows of each state, by source; absent from a dry run', object(rowStates)),
  ),
  skipped_over_budget: is.count('rows read and not picked, because the budget could not pay their lookup'),
  unread_over_budget: is.orAbsent(
    is.texts('sources not read to the end for the budget: more rows may remain'),
  ),
  left_out: is.orAbsent(
    is.list('sources that do not fit their tables: no more of them was read or written', leftOutSource),
  ),
  unread_sources: is.orAbsent(is.texts('sources not read to the end, because their table was locked')),
  requests: is.counts('calls made for this run, by whichever process', {
    person: 'single calls about people',
    company: 'single calls about companies',
    bulk: 'bulk calls',
    retried: 'of all calls, those that failed and are repeated',
    throttled: 'of all calls, those answered 429',
  }),
  jobs: is.counts('bulk jobs', {
    submitted: 'accepted by the service',
    completed: 'of these, delivered',
    failed: 'of these, delivered as failed',
    expired: 'of these, not delivered before their deadline',
    in_doubt: 'posted without an answer: they may have been accepted',
    waiting: 'not delivered yet',
  }),
  skipped_cells: is.list('skipped cells by column and reason', skippedGroup),
  duration_ms: is.count('how long it took, in milliseconds'),
  services: is.orAbsent(
    is.list('of several services, each in their order: the numbers above are those of all', serviceReport),
  ),
  dry_run: is.orAbsent(
    dryRun.describe('only of a dry run: states and cells above are those that the run would have produced'),
  ),
})
