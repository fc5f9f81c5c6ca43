import { z } from 'zod'
import { ALL_LOOKUP_KINDS } from '../identifiers/kind.ts'
import { leftOutSource } from './run.ts'
import { is, object, money, mapKeys, type ReportOf } from './shape.ts'

/** What a condition of the source's filter leaves out. NULL leaves a row out as false does. */
export type ConditionCount = ReportOf<typeof conditionCount>
const conditionCount = object({
  condition: is.text('as configured'),
  rows: is.count('rows that it leaves out, whatever other conditions do'),
  alone: is.count('of these, the rows that meet every other condition'),
  keys: is.orAbsent(
    is.texts(
      'with `--list filtered`: keys of up to five of these rows, those that it alone leaves out first',
    ),
  ),
})

/**
 * What a run would do with the rows of one source, each counted once: the numbers of each stage add up. With a limit, a plan reads no
 * further than a run; numbers that need the whole table are then null.
 */
export type SourcePlan = ReportOf<typeof sourcePlan>
const sourcePlan = object({
  source: is.text('its name'),
  stopped_at: is.orNull(
    z.literal('limit').describe('where reading stopped; null: the whole source was read'),
  ),
  table: is.orNull(is.count('rows of the table; null: not counted, as reading stopped before the end')),
  without_key: is.orNull(is.count('rows with NULL in a column of the key; null: not counted')),
  filtered_out: is.orNull(is.count('rows left out by the filter and joins; null: not counted')),
  conditions: is.orNull(
    is.list(
      'by condition of `where`, in their order; null: not counted, as reading stopped before the end, or one fails',
      conditionCount,
    ),
  ),
  conditions_error: is.orNull(is.text('why the conditions could not be counted; null: nothing failed')),
  where_out: is.orNull(is.count('rows left out by `--where`; null: not counted')),
  rows: is.count('rows that were read'),
  complete: is.count('rows without a blank output'),
  fresh: is.count('rows enriched or looked up not long ago'),
  held: is.count('rows that another run has picked, or that wait for a retry'),
  picked: is.count('rows that a run would pick: the sum of `suppressed`, `valid_input` and `invalid_input`'),
  suppressed: is.count('rows about an erased person or company: never looked up'),
  valid_input: is.count('rows with a usable input'),
  invalid_input: is.byName('rows without a usable input, by reason', z.int()),
  recently_enriched: is.orNull(
    object({
      rows: is.count('fresh rows whose `freshness` is recent, whatever enriched them'),
      reason: is.text('until when they are fresh, in words'),
    }).describe('null: the source has no `freshness`'),
  ),
})

/** What one of several services would be requested with, and what that costs, within the budget. */
export type ServicePlan = ReportOf<typeof servicePlan>
const servicePlan = object({
  service: is.text('its name'),
  lookups: object({
    certain: is.count('of rows that come to it whatever other services answer'),
    max: is.count('if every row goes on to the last service'),
  }).describe('lookups that it would be requested with within the budget'),
  max_amount: is.orNull(money.describe('of `lookups.max`; null without a price')),
})

/**
 * What a run would request and cost.
 * @example
 * const { calls, cost, time } = await fillrate.plan()
 */
export type Plan = ReportOf<typeof planReport>
export const planReport = object({
  sources: is.list(
    'by source, each row counted once: `table` = `without_key` + `filtered_out` + `where_out` + `rows`, and `rows` = `complete` + `fresh` + `held` + `picked`',
    sourcePlan,
  ),
  paused: is.texts('sources that a run would leave out, because they are paused'),
  left_out: is.list(
    'sources that a run would leave out, because they do not fit their tables',
    leftOutSource,
  ),
  lookups: object({
    distinct: is.count('different lookups of all sources together'),
    stored: is.count('of these, answered already, or requested by another run now'),
    to_request: object(
      mapKeys(ALL_LOOKUP_KINDS, (kind) => is.count(`lookups of the kind \`${kind}\``)),
    ).describe('of these, to be requested, by kind'),
    requested: is.count('lookups to be requested: the sum of `to_request`'),
    is_estimate: is.boolean('there are too many to count: the numbers are within half a percent'),
  }).describe('the lookups that the rows need'),
  calls: is.counts('calls within the budget', {
    person: 'single calls about people',
    company: 'single calls about companies',
    bulk: 'bulk calls',
    total: 'all calls',
  }),
  cost: object({
    lookups: is.count('lookups that would be requested within the budget, at least'),
    max_lookups: is.count('at most: each row reaches its last identifier and service'),
    max_credits: is.orAbsent(
      is.number('the most of these in credits; only where a lookup does not cost one'),
    ),
    max_amount: is.orNull(money.describe('of `max_lookups`; null without a price')),
    budget: is.orNull(is.count('the budget in lookups; null: unlimited, or none was given')),
    beyond_budget: is.count('lookups beyond the budget, of the rows that were read'),
  }).describe('what a run would cost'),
  time: object({
    limit: is.orNull(is.count('calls in a window; null: not known yet')),
    window_ms: is.orNull(is.number('length of the window in milliseconds; null: not known yet')),
    ms: is.orNull(is.number('how long the calls take at this limit, in milliseconds; null: unknown')),
    max_ms: is.orNull(is.number('the same for `cost.max_lookups`, in milliseconds; null: unknown')),
  }).describe('how long a run would take'),
  services: is.orAbsent(
    is.list('of several services, each in their order: the numbers above are then sums', servicePlan),
  ),
})
