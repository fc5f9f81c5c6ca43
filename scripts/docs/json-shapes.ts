import { z } from 'zod'
import { Job, type JobState } from '../../src/domain/job.ts'
import { ROW_STATE_FACTS, ROW_STATES } from '../../src/domain/row.ts'
import { RUN_STATUSES } from '../../src/domain/run.ts'

// The objects that `--json` prints, by command: the source of docs/json.md. A test holds the output of each command to
// them, and another one that no field is without a meaning.

const count = (meaning: string) => z.int().describe(meaning)
const number = (meaning: string) => z.number().describe(meaning)
const text = (meaning: string) => z.string().describe(meaning)
const boolean = (meaning: string) => z.boolean().describe(meaning)
const time = (meaning: string) => z.string().meta({ title: 'time' }).describe(meaning)
const anything = (meaning: string) => z.unknown().describe(meaning)
const object = z.strictObject
const list = <Item extends z.ZodType>(meaning: string, item: Item) => z.array(item).describe(meaning)
const texts = (meaning: string) => list(meaning, z.string())
const byName = <Value extends z.ZodType>(meaning: string, value: Value) =>
  z.record(z.string(), value).describe(meaning)
/** Null where the value is unknown or does not apply: the meaning says which. */
const orNull = <Value extends z.ZodType>(value: Value) => value.nullable().describe(value.description ?? '')
const counts = <Name extends string>(meanings: Readonly<Record<Name, string>>) =>
  object(
    Object.fromEntries(
      Object.entries<string>(meanings).map(([name, meaning]) => [name, count(meaning)]),
    ) as Record<Name, z.ZodInt>,
  )
const mapKeys = <Key extends string, Value>(keys: readonly Key[], make: (key: Key) => Value) =>
  Object.fromEntries(keys.map((key) => [key, make(key)])) as Record<Key, Value>
const integer = z.int()

const rowStates = mapKeys(ROW_STATES, (state) => count(ROW_STATE_FACTS[state].meaning))

const JOB_STATE_MEANINGS: Readonly<Record<JobState, string>> = {
  submitting: 'about to be posted',
  submitted: 'accepted; its results are expected',
  completed: 'delivered',
  unread: 'delivered, with results that name no input, as none ever did: read again by the next run',
  failed: 'delivered as failed',
  in_doubt: 'posted without an answer: it may have been accepted',
  rejected: 'not accepted; its inputs are requested singly',
  expired: 'not delivered before its deadline; its inputs are requested singly',
}

const runState = z.enum(['running', 'completed', 'interrupted', 'failed']).describe('state of the run')
const trigger = z
  .enum(['manual', 'schedule', 'follow', 'backfill'])
  .describe(
    'what started it: a person or program, the schedule, a change of a followed table, its first pass',
  )

/** Objects that several commands print. */
const problem = object({
  source: text('the source that it is about').optional(),
  place: text('where: `sources.contacts.outputs.title`, a flag, a variable'),
  found: text('what is there'),
  expected: text('what should be there'),
  todo: orNull(text('what to do; null: make it what is expected')),
}).meta({ id: 'problem' })
const money = object({
  amount: number('in units of the currency'),
  currency: text('ISO 4217: `EUR`'),
}).meta({ id: 'money' })
const cell = object({
  column: text('column of the table'),
  before: anything('value before; null: NULL'),
  after: anything('value after; null: NULL'),
  service: text('the service whose record has the value; absent with one service').optional(),
}).meta({ id: 'cell' })
const diffRow = object({
  source: text('its source'),
  key: text('its key, as text'),
  confidence: orNull(number('confidence of the record, 0 to 1; null: it has none')),
  cells: list('cells that change', cell),
}).meta({ id: 'diff-row' })
const writtenColumn = object({
  source: text('its source'),
  column: text('column of the table'),
  written: count('cells that would be written'),
}).meta({ id: 'written-column' })
const skippedGroup = object({
  source: text('its source'),
  column: text('column of the table'),
  reason: text('why the value was not written, as a name: `too_long`'),
  detail: orNull(text('constraint, bound or error; null: the reason says all')),
  description: text('reason and detail in words'),
  rows: count('rows with such a cell'),
  distinct_values: count('different values'),
  values: list(
    'the most frequent values, at most 25',
    object({ value: anything('as the service sent it'), rows: count('rows with this value') }),
  ),
}).meta({ id: 'skipped-group' })
const spendFields = {
  calls: count('calls answered, or in doubt'),
  lookups: count('lookups billed: answered by the service, or accepted in a job'),
  in_doubt: count('lookups beside these that may be billed, because the answer was lost'),
  credits: number('credits billed; only where a lookup does not cost one').optional(),
  credits_in_doubt: number('the most credits that may be billed beside these').optional(),
  cost: orNull(money.describe('of `lookups`, or of `credits`, at the configured price; null without one')),
}
const spend = object(spendFields).meta({ id: 'spend' })
const fillCounts = {
  eligible: count('rows that the filter and joins let in'),
  columns: list(
    'the outputs',
    object({ column: text('column of the table'), filled: count('eligible rows in which it is not blank') }),
  ),
}
const pausedSource = object({
  source: text('its name'),
  paused_at: time('when it was paused'),
  paused_by: text('who paused it'),
  reason: orNull(text('why; null: none was given')),
  resume_at: orNull(time('when it resumes by itself; null: at `fillrate resume`')),
}).meta({ id: 'paused-source' })
const bulk = object({
  possible: boolean('whether bulk jobs can be used'),
  reason: orNull(text('why not; null: they can')),
  todo: orNull(text('what to do to use them; null: nothing')),
}).meta({ id: 'bulk' })
const storedRun = object({
  id: count('its number'),
  trigger,
  sources: texts('the sources that it picked from'),
  options: byName('its options: `limit`, `route`, `where`', z.unknown()),
  state: runState,
  reason: orNull(text('why it ended as it did; null: nothing more to say')),
  started_at: time('when it started'),
  finished_at: orNull(time('when it ended; null: it runs')),
  cancelled_by: orNull(text('who cancelled it; null: it was not cancelled')),
  totals: anything('the object that the run printed, without values of rows; null: it runs, or died'),
  version: orNull(text('the version of Fillrate that made it; null: one that did not store it')),
}).meta({ id: 'stored-run' })
const storedJob = object({
  key: text('Fillrate’s own name of the job'),
  job_id: orNull(text('the service’s name of it; null: it was not accepted')),
  state: z.enum(Object.values(Job)).describe('state of the job'),
  reason: orNull(text('why it is in this state; null: nothing more to say')),
  size: count('inputs in it'),
  run: orNull(count('the run that submitted it; null: retention has deleted the run')),
  created_at: time('when it was created'),
  submitted_at: orNull(time('when the service accepted it; null: not accepted')),
  deadline_at: time('when it expires without a delivery'),
  finished_at: orNull(time('when it was delivered, rejected or expired; null: it is open')),
}).meta({ id: 'stored-job' })
const storedLookup = object({
  id: count('its number'),
  service: text('its service, where the database knows several').optional(),
  went_on: text('why the row went on to another service; absent: it did not').optional(),
  kind: text('`email`, `linkedin_url`, `name_company` or `domain`'),
  input: byName('the input of the lookup', z.string()),
  state: text('state of the lookup'),
  reason: orNull(text('why it is in this state; null: nothing more to say')),
  attempts: count('calls that failed'),
  unconfirmed_calls: count('calls without an answer, which may have been billed'),
  confidence: orNull(number('of its record, 0 to 1; null: none')),
  run: orNull(count('the run that requested it; null: none yet')),
  job: orNull(text('the key of its job; null: it is requested singly')),
  requested_at: orNull(time('when it was requested last; null: not yet')),
  resolved_at: orNull(time('when it was answered; null: not yet')),
  not_before: orNull(time('when it may be requested again; null: at once')),
  leased_until: orNull(time('until when a process holds it; null: none does')),
  refresh_at: orNull(time('when its answer is too old to be used; null: never')),
  rows: count('rows that share it'),
  malformed_response: orNull(
    object({
      status: count('HTTP status'),
      body: text('its body, cut'),
      received_at: time('when it came'),
    }).describe('the latest response that was no valid record; null: none is stored'),
  ),
}).meta({ id: 'stored-lookup' })
const scheduleEntry = object({
  cron: text('when it runs, as a cron expression'),
  timezone: text('time zone of `cron`'),
  sources: texts('what it runs'),
  budget: orNull(
    z.union([z.int(), z.literal('unlimited')]).describe('its budget; null: that of the configuration'),
  ),
  next: list('its next times', z.string().meta({ title: 'time' })),
}).meta({ id: 'schedule-entry' })
const followed = object({
  source: text('its name'),
  action: z.enum(['install', 'remove']).describe('the requested action'),
  table: text('its table'),
  columns: texts('columns whose changes are followed'),
  changed: boolean('the triggers were installed, replaced or removed now'),
  followed: boolean('the table is followed now'),
}).meta({ id: 'followed' })
const leftOut = object({
  source: text('its name'),
  problem: text('what `fillrate check` finds, in one line'),
  mend: text('what to do about it'),
})

const undone = object({
  run: orNull(count('the run that the undo is; null: nothing was written')),
  undoes: count('the run that is undone'),
  writes_again: boolean('that run was an undo, so its values are written again'),
  dry_run: boolean('nothing was written'),
  status: z.enum(['completed', 'interrupted']).describe('how it ended'),
  left_out: list('sources of the run that do not fit their tables: nothing of them was undone', leftOut),
  waiting: count('rows of the run that still wait: what they get is written after this undo'),
  changes: counts({
    total: 'the sum of the others',
    restored: 'with at least one restored cell',
    kept: 'whose cells were all changed since',
    row_missing: 'whose row is no longer there',
    rejected: 'whose former values the database rejects',
    undone_before: 'undone by an earlier undo',
    not_configured: 'whose source is no longer configured',
    remaining: 'not undone yet: interrupted, their source is left out, or their rows are locked',
  }).describe('changes of the run, each of which is one write to one row'),
  cells: counts({
    restored: 'cells that hold their former value again',
    touched: 'restored cells of `touch` columns, beside these',
    kept: 'cells left, because they were changed since',
  }).describe('cells of these changes'),
  columns: list(
    'the same by column',
    object({
      source: text('its source'),
      column: text('column of the table'),
      restored: count('restored cells'),
      kept: count('cells left'),
    }),
  ),
  kept: list(
    'rows with values that stay, at most 10,000',
    object({
      source: text('its source'),
      key: text('its key'),
      columns: texts('columns that stay'),
      written_by: orNull(count('the run that wrote them since; null: not Fillrate')),
      inputs_changed: boolean('the row has other inputs than when it was written'),
    }),
  ),
  failed: list(
    'rows that could not be restored, at most 10,000',
    object({
      source: text('its source'),
      key: text('its key'),
      outcome: text('`row_missing` or `rejected`'),
      reason: orNull(text('why; null: the outcome says all')),
    }),
  ),
  duration_ms: count('how long it took, in milliseconds'),
}).meta({ id: 'undone' })
const retiredSource = object({
  source: text('its name'),
  rows: count('rows picked while it was configured'),
  waiting: count('of these, waiting'),
  failed: count('of these, not enriched'),
  deleted: count('rows beside these that its table had lost'),
}).meta({ id: 'retired-source' })

const spendReport = object({
  today: spend.describe('since midnight UTC'),
  last_30_days: spend.describe('of the last 30 days, today included'),
  services: list(
    'by service, each at its own price; only where this database knows several',
    object({
      service: text('its name in the configuration, or its address'),
      host: text('its address'),
      today: spend.describe('since midnight UTC'),
      last_30_days: spend.describe('of the last 30 days, today included'),
    }),
  ).optional(),
  budgets: list(
    'what is left of each budget',
    object({
      kind: z
        .enum(['run', 'schedule', 'live_sync'])
        .describe('whose budget: of a run in progress, or of live sync today'),
      unit: z.literal('credit').optional().describe('what it counts, if not lookups'),
      run: orNull(count('the run; null: a budget of the day')),
      source: orNull(text('the part of this source; null: all')),
      limit: orNull(count('in lookups or `unit`; null: unlimited')),
      spent: number('billed, or in doubt because the answer was lost'),
      left: orNull(
        number('of the limit, without what is spent and what calls under way may cost; null: unlimited'),
      ),
    }),
  ),
})

const run = object({
  run: count('its number'),
  status: z
    .enum(RUN_STATUSES)
    .describe(
      'how it ended; `unauthorized`: the service rejects every call as configured; `out_of_credits`: the account has none left',
    ),
  reason: orNull(text('why it ended so; null: nothing more to say')),
  cancelled_by: text('who cancelled it').optional(),
  rows: object({ picked: count('the sum of the others'), ...rowStates }).describe('rows by state'),
  rows_by_source: byName(
    'the rows of each state, by source; absent from a dry run',
    object(rowStates),
  ).optional(),
  skipped_over_budget: count('rows read and not picked, because the budget could not pay them'),
  unread_over_budget: texts('sources not read to the end for the budget: more rows may remain').optional(),
  left_out: list(
    'sources that do not fit their tables: no more of them was read or written',
    leftOut,
  ).optional(),
  unread_sources: texts('sources not read to the end, because their table was locked').optional(),
  lookups: counts({
    distinct: 'different lookups that the rows need',
    stored: 'answered without a call of this run',
    requested: 'requested by this run',
    found: 'answered with a record',
    not_found: 'answered without a record',
    rejected: 'whose input the service rejects',
    failed: 'that failed at every attempt',
    in_doubt: 'requested without an answer: the service may have billed them',
  }).describe('the lookups of the rows'),
  requests: counts({
    person: 'single calls about people',
    company: 'single calls about companies',
    bulk: 'bulk calls',
    retried: 'of all these, calls that failed and are repeated',
    throttled: 'of all these, calls answered 429',
  }).describe('calls made for this run, by whichever process'),
  spend: spend.describe('what the service bills for it'),
  jobs: counts({
    submitted: 'accepted by the service',
    completed: 'of these, delivered',
    failed: 'of these, delivered as failed',
    expired: 'of these, not delivered before their deadline',
    in_doubt: 'posted without an answer: they may have been accepted',
    waiting: 'not delivered yet',
  }).describe('bulk jobs'),
  cells: counts({
    written: 'cells written',
    protected: 'cells left, because they hold a value that the policy protects',
    skipped: 'cells left, because the value does not fit',
  }).describe('cells of the rows with a record'),
  skipped_cells: list('skipped cells by column and reason', skippedGroup),
  rate: object({
    limit: orNull(count('calls in a window; null: unknown')),
    window_ms: orNull(number('length of the window in milliseconds; null: unknown')),
    window_at_most_ms: number('upper bound of an unknown window, in milliseconds').optional(),
    banned: boolean('the service has banned the key for a while').optional(),
    used: count('calls counted against the limit'),
    permitted: orNull(
      number('calls that the limit would have permitted while there was work; null: unknown'),
    ),
    utilisation: orNull(number('`used` of `permitted`, 0 to 1; null: unknown')),
    shared_key: boolean('another client seems to use the key').optional(),
  }).describe('the rate limit during the run'),
  duration_ms: count('how long it took, in milliseconds'),
  services: list(
    'of several services, each in their order: `service`, `rows` that ended with it or wait for it, and its own `status`, `reason`, `lookups`, `spend`, `cells` and `rate`',
    z.unknown(),
  ).optional(),
  dry_run: object({
    columns: list('cells that would be written, by column', writtenColumn),
    sample: list('some rows, before and after', diffRow),
  })
    .optional()
    .describe('only of a dry run'),
})

/** Referred to by the objects of the commands, and described once. */
export const SHARED_SHAPES = [
  problem,
  money,
  spend,
  cell,
  diffRow,
  writtenColumn,
  skippedGroup,
  storedRun,
  storedJob,
  storedLookup,
  pausedSource,
  retiredSource,
  followed,
  undone,
  bulk,
  scheduleEntry,
] as const

/** By command. An error has the shape of `error`, whatever the command. */
export const JSON_SHAPES = {
  error: object({
    error: object({
      kind: text('what was wrong: `usage`, `configuration`, `database`, …'),
      message: text('what happened, where, what was expected and what to do'),
      problems: list('the single problems, if there are several', problem),
    }).describe('why the command failed'),
  }),
  migrate: object({ applied: texts('migrations that were applied now') }),
  check: object({
    ok: boolean('no check failed'),
    checks: list(
      'in the order in which they were made',
      object({
        name: text('what was checked'),
        service: text('the one of several services that it is about, by name').optional(),
        verdict: text('`ok`, `warning`, `error` or `skipped`'),
        text: text('what was found'),
        todo: orNull(text('what to do; null: nothing')),
        problems: list('the single problems', problem),
      }),
    ),
  }),
  plan: object({
    sources: list(
      'by source, each row counted once: `table` = `without_key` + `filtered_out` + `where_out` + `rows`, and `rows` = `complete` + `fresh` + `held` + `picked`',
      object({
        source: text('its name'),
        stopped_at: orNull(
          z.literal('limit').describe('where reading stopped; null: the whole source was read'),
        ),
        table: orNull(count('rows of the table; null: not counted, as reading stopped before the end')),
        without_key: orNull(count('rows with NULL in a column of the key; null: not counted')),
        filtered_out: orNull(count('rows left out by the filter and joins; null: not counted')),
        conditions: orNull(
          list(
            'by condition of `where`, in their order; null: not counted, as reading stopped before the end, or one fails',
            object({
              condition: text('as configured'),
              rows: count('rows that it leaves out, whatever other conditions do'),
              alone: count('of these, the rows that meet every other condition'),
              keys: texts(
                'with `--list filtered`: keys of up to five of these rows, those that it alone leaves out first',
              ).optional(),
            }),
          ),
        ),
        conditions_error: orNull(text('why the conditions could not be counted; null: nothing failed')),
        where_out: orNull(count('rows left out by `--where`; null: not counted')),
        rows: count('rows that were read'),
        complete: count('rows without a blank output'),
        fresh: count('rows enriched or looked up not long ago'),
        held: count('rows that another run has picked, or that wait for a retry'),
        picked: count('rows that a run would pick: the sum of the next three'),
        suppressed: count('rows about an erased person or company: never looked up'),
        valid_input: count('rows with a usable input'),
        invalid_input: byName('rows without a usable input, by reason', integer),
        recently_enriched: orNull(
          object({
            rows: count('fresh rows whose `freshness` is recent, whatever enriched them'),
            reason: text('until when they are fresh, in words'),
          }).describe('null: the source has no `freshness`'),
        ),
      }),
    ),
    paused: texts('sources that a run would leave out, because they are paused'),
    left_out: list('sources that a run would leave out, because they do not fit their tables', leftOut),
    lookups: object({
      distinct: count('different lookups of all sources together'),
      stored: count('of these, answered already, or requested by another run now'),
      to_request: byName('of these, to be requested, by kind', integer),
      requested: count('of these, to be requested: the sum of `to_request`'),
      is_estimate: boolean('there are too many to count: the numbers are within half a percent'),
    }).describe('the lookups that the rows need'),
    calls: counts({
      person: 'single calls about people',
      company: 'single calls about companies',
      bulk: 'bulk calls',
      total: 'the sum',
    }).describe('calls within the budget'),
    cost: object({
      lookups: count('lookups that would be requested within the budget, at least'),
      max_lookups: count('at most: each row reaches its last identifier and service'),
      max_credits: number('the most of these in credits; only where a lookup does not cost one').optional(),
      max_amount: orNull(money.describe('of `max_lookups`; null without a price')),
      budget: orNull(count('the budget in lookups; null: unlimited, or none was given')),
      beyond_budget: count('lookups beyond the budget, of the rows that were read'),
    }).describe('what a run would cost'),
    time: object({
      limit: orNull(count('calls in a window; null: not known yet')),
      window_ms: orNull(number('length of the window in milliseconds; null: not known yet')),
      ms: orNull(number('how long the calls take at this limit, in milliseconds; null: unknown')),
      max_ms: orNull(number('the same for `max_lookups`; null: unknown')),
    }).describe('how long a run would take'),
    services: list(
      'of several services, each in their order: the numbers above are then sums',
      object({
        service: text('its name'),
        lookups: object({
          certain: count('of rows that come to it whatever other services answer'),
          max: count('if every row goes on to the last service'),
        }).describe('lookups that it would be requested with within the budget'),
        max_amount: orNull(money.describe('of `lookups.max`; null without a price')),
      }),
    ).optional(),
    bulk: bulk.describe('whether bulk jobs can be used'),
  }),
  follow: followed,
  'follow of several': object({ sources: list('as of one, in the order of the command', followed) }),
  source: object({
    source: text('the name that left the configuration'),
    renamed_to: text('its name now'),
    rows: count('rows that have the new name'),
  }),
  run,
  cancel: object({
    run: count('its number'),
    state: text('state of the run; `running`: cancelled, and finishing what is under way'),
    reason: orNull(text('why it ended; null: it has not')),
    cancelled_by: orNull(text('who cancelled it; null: it had ended by itself')),
    follow: boolean('it was a run of live sync, which goes on with another one'),
    sources: texts('the sources that it picked from'),
  }),
  undo: undone,
  forget: object({
    dry_run: boolean('nothing was erased'),
    tombstones: list(
      'what is never looked up again',
      object({ kind: text('kind of the identifier'), hash: text('SHA-256 of kind and identifier') }),
    ),
    erased: byName('what was erased, by table or place', integer),
    rows: list(
      'rows of your tables that refer to the subject: erase them yourself',
      object({ source: text('its source'), key: text('its key') }),
    ),
    searched: object({
      tables: count('Fillrate’s tables'),
      columns: count('their text columns'),
      sources: texts('sources whose present inputs were searched'),
    }).describe('where the identifier was looked for'),
    unsearched: list(
      'sources whose rows could not be searched; empty unless something is wrong',
      object({ source: text('its name'), reason: text('why, without values') }),
    ),
    remaining: list(
      'where it was still found; empty unless something is wrong',
      object({ table: text('its name'), column: text('its name'), rows: count('rows with it') }),
    ),
  }),
  'forget --list': object({
    suppressions: list(
      'what is never looked up again, the latest first',
      object({
        kind: text('kind of the identifier'),
        hash: text('SHA-256 of kind and identifier'),
        since: text('when it was erased, in ISO 8601'),
      }),
    ),
  }),
  'forget --allow-again': object({ removed: count('suppressions that were taken back') }),
  'forget --deleted': object({
    dry_run: boolean('nothing was erased'),
    source: text('its name'),
    deleted: count('rows that their table no longer has'),
    erased: orNull(
      counts({
        rows: 'what is known of these rows',
        lookups: 'lookups that no other row needs',
        records: 'records of these',
        changes: 'changes of these rows',
        results: 'results in deliveries',
      }).describe('null: a dry run'),
    ),
  }),
  pause: object({
    changed: texts('sources that were paused now'),
    paused: list('all paused sources', pausedSource),
  }),
  resume: object({
    changed: texts('sources that were resumed now'),
    paused: list('all sources that are still paused', pausedSource),
  }),
  failures: object({
    total: count('rows that could not be enriched'),
    reasons: list(
      'these by source, state and reason, the most frequent first',
      object({
        source: text('its name'),
        service: text('the service that finished the rows, where the database knows several').optional(),
        state: text('state of the rows'),
        reason: text('why'),
        rows: count('rows'),
      }),
    ),
    cells: list('skipped cells by column and reason', skippedGroup),
    rows: list(
      'the latest of these rows',
      object({
        source: text('its source'),
        service: text('the service that finished it, where the database knows several').optional(),
        key: text('its key'),
        state: text('its state'),
        reason: orNull(text('why; null: the state says all')),
        settled_at: time('since when'),
      }),
    ),
  }),
  runs: object({
    runs: list(
      'newest first',
      object({
        ...storedRun.shape,
        spend: spend.describe('billed so far, killed and running runs included'),
      }),
    ),
  }),
  'cancel or retry --job': object({
    job: text('its identifier here'),
    action: text('`cancel` or `retry`'),
    state: orNull(text('state of the job now; null: nothing was changed')),
    requeued: count('inputs that the next run requests singly'),
    possibly_billed: count('of these, inputs that the service may have processed, and may bill again'),
    message: text('what happens now, or why nothing does'),
  }),
  status: object({
    conditions: list(
      'what is wrong now, the gravest kind first',
      object({
        kind: text('its name, in docs/notifications.md'),
        service: orNull(text('the service at fault')),
        source: orNull(text('the source, or several; of a late schedule, the schedule')),
        severity: text('`error` or `warning`'),
        since: time('when it began'),
        title: text('what happened'),
        meaning: text('what it means for the rows'),
        mend: text('what to do'),
        proof: text('the command that proves it'),
      }),
    ),
    rows: byName(
      'rows ever picked, by source',
      object({ total: count('the sum of the others'), ...rowStates }),
    ),
    jobs: object(
      mapKeys(Object.values(Job), (state) => count(`jobs ${JOB_STATE_MEANINGS[state]}`).optional()),
    ).describe('jobs by state; a state without a job is absent'),
    deliveries: byName('deliveries by state', integer),
    quarantined_results: count('results that matched no input and were not used'),
    running_runs: count('runs in progress'),
    last_run: orNull(storedRun.describe('the run that started last; null: there was none')),
    spend: spendReport.describe('what was requested, what it costs, and what is left of the budgets'),
    slowed_writes: list(
      'sources whose writes have waited in the last half minute, because more are ready than `writes` allows',
      object({ source: text('its name'), per_hour: count('rows that may be written in an hour') }),
    ),
    paused: list('sources from which no run picks', pausedSource),
    retired: list('sources that left the configuration, in no other count', retiredSource),
    schedule: list('the scheduled runs', scheduleEntry),
    deleted: list(
      'rows that their table no longer has',
      object({
        source: text('its name'),
        is_kept: boolean('they are kept; otherwise they are erased'),
        rows: count('rows'),
        hidden: count('of these, rows that row-level security may only hide'),
        since: time('when the first of them was noticed'),
        held: orNull(text('why they are not erased; null: nothing is in the way')),
      }),
    ),
    limits: list(
      'the rate limits, the latest first',
      object({
        service: text('its name; of the only one, its host'),
        limit: count('calls in a window'),
        window_ms: orNull(number('length of the window in milliseconds; null: unknown')),
        observed_at: time('when the limit was last seen'),
        status: orNull(
          object({
            state: text('state of the limiter, in docs/rate.md'),
            limit: orNull(count('calls in a window; null: unknown')),
            window_ms: orNull(number('length of the window in milliseconds; null: unknown')),
            window_at_most_ms: orNull(
              number('upper bound of an unknown window, in milliseconds; null: none'),
            ),
            used: count('calls counted since the limiter started'),
            permitted: orNull(
              number('calls that the limit would have permitted while there was work; null: unknown'),
            ),
            utilisation: orNull(number('`used` of `permitted`, 0 to 1; null: unknown')),
            window_used: count('calls in the present window'),
            next_window_at: orNull(time('when the next window begins; null: unknown')),
            stall_reason: orNull(text('why calls wait; null: they do not')),
            throttled: count('calls answered 429'),
            shared_key: boolean('another client seems to use the key'),
            overstated: orNull(
              object({
                endpoint: orNull(text('whose calls it limits: person, company, bulk or poll; null: all')),
                limit: count('calls in a window, as the description states it'),
                window_ms: number('length of that window in milliseconds'),
                granted: count('about how many of these calls the service grants'),
              }).describe('a limit that is stated higher than what the service grants; null: none'),
            ),
            reported_at: time('when the leader reported this'),
            live: boolean('the leader still holds its lease'),
          }).describe('the last report of the leader; null: none yet'),
        ),
      }),
    ),
    fill_rate: byName(
      'by source; a text says why it is unknown',
      z.union([z.string(), object({ ...fillCounts, measured_at: time('when a run counted it') })]),
    ),
    configuration_problems: orNull(list('what is wrong with the configuration; null: nothing', problem)),
  }),
  explain: object({
    source: text('its name'),
    key: text('key of the row'),
    table: text('table of the source'),
    row: object({
      exists: boolean('the table has it'),
      excluded_by: orNull(
        text('`joins` or `where`: what leaves it out of the source; null: it belongs to it'),
      ),
      unmet_conditions: texts('the conditions of `where` that it does not meet, where these leave it out'),
      join_count: count('rows that the joins return for it; more than one is a mistake of the mapping'),
      problem: orNull(text('error of an expression that fails on it; null: none')),
      fresh_until: orNull(time('until when its `freshness` keeps it from being picked; null: it does not')),
      inputs: byName('its inputs, without what Fillrate filled itself', orNull(z.string())),
      filled_inputs: byName('inputs that Fillrate filled itself: it is not looked up by them', z.string()),
      lookup_request: orNull(
        object({
          kind: text('kind of the lookup'),
          input: byName('input of the lookup', z.string()),
        }).describe('the lookup that its inputs make; null: none is usable'),
      ),
      is_suppressed: boolean('an identifier of it was erased: it is never looked up'),
      input_notes: list(
        'inputs that are not used',
        object({ input: text('its name'), reason: text('why not') }),
      ),
      columns: list(
        'the outputs as they are now',
        object({
          column: text('column of the table'),
          value: anything('its value'),
          blank: boolean('it counts as blank'),
          policy: orNull(text('policy of the output; null: a column of `touch`')),
          written_by_fillrate: orNull(
            boolean('it holds what Fillrate wrote; null: what Fillrate wrote was erased'),
          ),
          written_by_source: orNull(text('the source that wrote it; null: none')),
          written_by: orNull(count('the run that wrote it; null: none, or unknown')),
          service: text('the service that it is from, where the database knows several').optional(),
        }),
      ),
    }).describe('the row of your table'),
    state: orNull(
      object({
        state: z.enum(ROW_STATES).describe('its state'),
        reason: orNull(text('why; null: the state says all')),
        notes: orNull(byName('further facts, by name', z.unknown())),
        run: orNull(count('the run that finished it last, or that holds it; null: none')),
        alive: boolean('the process of this run is alive'),
        inputs_changed: boolean('its inputs are others than when it was picked'),
        picked_at: time('when it was picked last'),
        settled_at: orNull(time('when it got its state; null: it waits')),
        due_at: orNull(time('when it is due again; null: at its next change')),
      }).describe('what Fillrate knows of the row; null: it was never picked'),
    ),
    lookup: orNull(storedLookup.describe('its lookup; null: none')),
    missed_lookups: list('lookups before this one: of its cascade, and of earlier services', storedLookup),
    job: orNull(storedJob.describe('the job of the lookup; null: it is requested singly')),
    record: anything('the record, as the service sent it; null: none'),
    fields: list(
      'the outputs, and what became of the record’s value; of several services, those of each record in their order',
      object({
        service: text('the service whose record it is, where the database knows several').optional(),
        field: text('field of the record'),
        column: text('column of the table'),
        value: anything('value of the record'),
        skipped: orNull(text('why it is not written, as a name; null: it is, or could be')),
        result: text('whether it was written, and why not, in words'),
      }),
    ),
    changes: list(
      'writes of Fillrate to the row, newest first',
      object({
        id: count('its number'),
        run: orNull(count('the run that wrote; null: retention has deleted it')),
        service: text('the service whose record it wrote, where the database knows several').optional(),
        written_at: time('when'),
        undoes: orNull(count('the run whose write it takes back; null: it is no undo')),
        undone_by: orNull(count('the run that took it back; null: none')),
        cells: list(
          'the cells that it changed',
          object({ ...cell.shape, undone: boolean('this cell was taken back') }),
        ),
      }),
    ),
    next: object({
      what: text('what happens to the row next, in words'),
      at: orNull(time('when; null: at the next run, or never')),
    }).describe('the next step'),
  }),
  retry: object({
    dry_run: boolean('nothing was queued'),
    rows: count('rows that the next run picks'),
    lookups: count('different lookups that will be requested again'),
    without_call: count('rows that will be written from their stored record'),
    skipped: count('failed rows left, because they lack nothing any more, or left their source'),
  }),
  remap: object({
    ...run.omit({ dry_run: true, skipped_cells: true }).partial().shape,
    dry_run: boolean('nothing was written'),
    source: text('its name'),
    examined: counts({
      rows: 'the sum of the others but `undone` and `cells`',
      changed: 'whose cells change',
      unchanged: 'whose cells stay',
      below_confidence: 'whose record is below `minConfidence`',
      inputs_changed: 'whose inputs are others than those of the record: the next run picks them',
      row_missing: 'that their table no longer has',
      undone: 'of the changed, those undone before',
      cells: 'cells that change',
    }).describe('rows with a stored record'),
    skipped_cells: list('cells that the mapping skips, by column and reason', skippedGroup),
    columns: list('cells that change, by column', writtenColumn),
    sample: list('some rows, before and after', diffRow),
  }).describe('with the fields of a run if anything was written'),
  init: object({
    written: orNull(text('the file that was written; null: nothing was found')),
    tables: count('tables that were read'),
    sources: list(
      'the proposed sources',
      object({
        name: text('its name'),
        kind: z.enum(['person', 'company']).describe('what its rows are about'),
        table: text('its table'),
        key: texts('columns of the key'),
        inputs: list(
          'the proposed inputs',
          object({
            input: text('its name'),
            sql: text('expression over the table, `t`'),
            usable: number('share of the sampled rows with a usable value'),
          }),
        ),
        outputs: list(
          'the columns to fill',
          object({
            column: text('its name'),
            field: text('the field of the record'),
            filled: number('share of the sampled rows that hold a value'),
            map: orNull(byName('the labels of the column', z.string()).describe('null: it takes any value')),
          }),
        ),
        conditions: list(
          'conditions of `where`',
          object({
            keep: text('SQL: the rows that stay'),
            leaves: count('rows that it alone leaves out'),
            state: z.enum(['active', 'offered']).describe('in force, or a commented line of the file'),
          }),
        ),
        counted: orNull(
          object({
            rows: count('rows over which the conditions were counted'),
            of: z.enum(['table', 'sample']).describe('all rows of the table, or some'),
          }).describe('null: counting took too long'),
        ),
        grants: texts('statements for what this role lacks on the table'),
      }),
    ),
    left: list(
      'tables that are no source although they were named, or look like one',
      object({
        table: text('its name'),
        reason: text('why it is left'),
        grants: texts('statements that let this role read it'),
      }),
    ),
  }),
  serve: object({
    listens: orNull(text('address and port; null: no port')),
    public_url: orNull(text('the address that the service can reach; null: none')),
    bulk: bulk.describe('whether bulk jobs can be used'),
  }),
  start: object({
    listens: orNull(text('address and port, in the first object; null: no port')).optional(),
    public_url: orNull(text('the address that the service can reach; null: none')).optional(),
    schedule: list(
      'the scheduled runs, in the next object, and again after each reload',
      scheduleEntry,
    ).optional(),
    follows: texts('sources in live sync').optional(),
  }),
} as const
