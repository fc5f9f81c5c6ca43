import { z } from 'zod'
import { Job } from '../../src/domain/job.ts'
import { ROW_STATES } from '../../src/domain/row.ts'

// The objects that `--json` prints, by command: the source of docs/json.md. A test holds the output of each command to them.

const count = z.int()
const text = z.string()
const time = z.string().meta({ title: 'time' }).describe('ISO 8601')
const anything = z.unknown()
const object = z.strictObject
const list = z.array
const byName = (value: z.ZodType) => z.record(z.string(), value)
const counts = <Name extends string>(names: readonly Name[]) =>
  object(Object.fromEntries(names.map((name) => [name, count])) as Record<Name, typeof count>)

const rowStates = Object.fromEntries(ROW_STATES.map((state) => [state, count]))
const problem = object({ place: text, found: text, expected: text, todo: text.nullable() })
const cellDiff = list(object({ column: text, before: anything, after: anything }))
const diffRows = list(
  object({ source: text, key: text, confidence: z.number().nullable(), cells: cellDiff, touched: cellDiff }),
)
const writtenColumns = list(object({ source: text, column: text, written: count }))
const skippedCells = list(
  object({
    source: text,
    column: text,
    reason: text,
    detail: text.nullable(),
    description: text,
    rows: count,
    distinct_values: count,
    values: list(object({ value: anything, rows: count })),
  }),
)

const money = object({ amount: z.number(), currency: text })
const spend = object({
  calls: count.describe('answered, or in doubt'),
  lookups: count.describe('billed: answered by the service, or accepted in a job'),
  in_doubt: count.describe('lookups beside these that may be billed, because the answer was lost'),
  cost: money.nullable().describe('of `lookups`, at the configured price; null without one'),
})
const forecast = object({ lookups: count, cost: money.nullable() })
const spendReport = object({
  today: spend,
  last_30_days: spend,
  days: list(spend.extend({ day: text, by_source: byName(count).describe('lookups') })).describe(
    'UTC, oldest first',
  ),
  sources: list(spend.extend({ source: text })).describe('of 30 days'),
  runs: list(
    spend.extend({
      run: count,
      trigger: text,
      state: text,
      sources: list(text),
      started_at: time,
    }),
  ).describe('the latest that requested anything'),
  budgets: list(
    object({
      kind: z.enum(['run', 'schedule', 'live_sync', 'import']),
      run: count.nullable().describe('null: a budget of the day'),
      source: text.nullable().describe('the part of this source; null: all'),
      limit: count.nullable().describe('lookups; null: unlimited'),
      spent: count.describe('lookups that runs have claimed'),
      left: count.nullable(),
      used_up_at: time.nullable().describe('foreseen at the pace of today'),
    }),
  ),
  forecast: object({
    today: forecast.describe('by midnight UTC, at the pace of today'),
    next_30_days: forecast.describe('at the pace of the last seven days'),
  }),
})

const run = object({
  run: count,
  status: z.enum(['completed', 'budget_reached', 'interrupted', 'unauthorized', 'failed']),
  reason: text.nullable(),
  cancelled_by: text.optional().describe('who cancelled it'),
  rows: object({ picked: count.describe('the sum of the others'), ...rowStates }),
  rows_by_source: byName(object(rowStates)).optional().describe('absent from a dry run'),
  skipped_over_budget: count.describe('rows read and not picked, because the budget could not pay them'),
  unread_over_budget: list(text).optional().describe('sources not read to the end for the budget'),
  unread_sources: list(text).optional().describe('sources whose table was locked'),
  lookups: counts([
    'distinct',
    'stored',
    'requested',
    'found',
    'not_found',
    'rejected',
    'failed',
    'in_doubt',
  ]),
  requests: counts(['person', 'company', 'bulk', 'retried', 'throttled']).describe(
    'API calls made for this run',
  ),
  spend,
  jobs: counts(['submitted', 'completed', 'failed', 'expired', 'in_doubt', 'waiting']),
  cells: counts(['written', 'protected', 'skipped']),
  skipped_cells: skippedCells,
  rate: object({
    limit: count.nullable(),
    window_ms: z.number().nullable(),
    window_at_most_ms: z.number().optional(),
    banned: z.boolean().optional(),
    used: count,
    permitted: z.number().nullable(),
    utilisation: z.number().nullable().describe('0 to 1'),
    shared_key: z.boolean().optional(),
  }),
  duration_ms: count,
  dry_run: object({ columns: writtenColumns, sample: diffRows }).optional(),
})

const storedRun = object({
  id: count,
  trigger: z.enum(['manual', 'schedule', 'follow', 'backfill']),
  sources: list(text),
  options: byName(anything),
  state: z.enum(['running', 'completed', 'interrupted', 'failed']),
  reason: text.nullable(),
  started_at: time,
  finished_at: time.nullable(),
  cancelled_by: text.nullable(),
  totals: anything.describe('what the run printed, without values of rows; null while it runs'),
})
const pausedSources = list(
  object({
    source: text,
    paused_at: time,
    paused_by: text,
    reason: text.nullable(),
    resume_at: time.nullable(),
  }),
)
const bulk = object({ possible: z.boolean(), reason: text.nullable(), todo: text.nullable() })

const storedJob = object({
  key: text,
  job_id: text.nullable(),
  state: z.enum(Object.values(Job)),
  reason: text.nullable(),
  size: count,
  run: count.nullable(),
  created_at: time,
  submitted_at: time.nullable(),
  deadline_at: time,
  finished_at: time.nullable(),
})
const fillCounts = object({ eligible: count, columns: list(object({ column: text, filled: count })) })
const storedLookup = object({
  id: count,
  kind: text,
  input: byName(text),
  state: text,
  reason: text.nullable(),
  attempts: count,
  unconfirmed_calls: count.describe('calls without an answer, which may have been billed'),
  confidence: z.number().nullable(),
  run: count.nullable(),
  job: text.nullable(),
  requested_at: time.nullable(),
  resolved_at: time.nullable(),
  not_before: time.nullable(),
  leased_until: time.nullable(),
  refresh_at: time.nullable(),
  rows: count.describe('rows that share it'),
  malformed_response: object({ status: count, body: text, received_at: time }).nullable(),
})
const proposedOutput = object({
  column: text,
  field: text,
  type: text,
  map: byName(text).optional(),
  sql: text.optional(),
  group: text.optional(),
  as: text.optional(),
  matches: text.optional(),
})
const scheduled = list(
  object({
    cron: text,
    timezone: text,
    sources: list(text),
    limit: count.nullable(),
    budget: z.union([count, z.literal('unlimited')]).nullable(),
    catch_up: z.boolean(),
    next: list(time),
  }),
)
const dryRun = { columns: writtenColumns, sample: diffRows }

/** By command. An error has the shape of `error`, whatever the command. */
export const JSON_SHAPES = {
  error: object({ error: object({ kind: text, message: text, problems: list(problem) }) }),
  version: object({ version: text }),
  help: object({
    commands: list(
      object({
        command: text,
        summary: text,
        description: text,
        usage: text,
        options: list(object({ name: text, value: text.nullable(), description: text })),
        examples: list(object({ line: text, description: text })),
        environment: list(text),
        exit_codes: list(count),
      }),
    ),
  }),
  migrate: object({ applied: list(text).describe('migrations') }),
  check: object({
    ok: z.boolean(),
    checks: list(
      object({
        name: text,
        verdict: text,
        text,
        todo: text.nullable(),
        problems: list(problem.extend({ verdict: text.optional() })),
      }),
    ),
  }),
  plan: object({
    sources: list(
      object({
        source: text,
        stopped_at: z.enum(['limit', 'budget']).nullable(),
        changed_since: time.nullable().describe('the rows changed since then were read; null: all'),
        table: count.nullable(),
        without_key: count.nullable().describe('rows with NULL in a column of the key'),
        filtered_out: count.nullable(),
        where_out: count.nullable(),
        rows: count,
        complete: count,
        fresh: count,
        held: count,
        picked: count,
        suppressed: count,
        valid_input: count,
        recently_enriched: object({ rows: count, reason: text }).nullable(),
        invalid_input: byName(count).describe('rows by reason'),
      }),
    ),
    paused: list(text),
    lookups: object({
      distinct: count,
      stored: count,
      to_request: byName(count),
      requested: count,
      is_estimate: z.boolean(),
    }),
    calls: counts(['person', 'company', 'bulk', 'total']),
    cost: object({
      lookups: count,
      max_lookups: count,
      amount: money.nullable().describe('what these cost; null without a price'),
      max_amount: money.nullable(),
      budget: count.nullable(),
      beyond_budget: count,
      match_rate: z.number().nullable().describe('0 to 1'),
      expected_found: z.number().nullable(),
      found_range: counts(['min', 'max']).nullable(),
    }),
    time: object({
      limit: count.nullable(),
      window_ms: z.number().nullable(),
      ms: z.number().nullable(),
      max_ms: z.number().nullable(),
    }),
    sample: diffRows.optional(),
    bulk,
  }),
  follow: object({
    source: text,
    action: z.enum(['install', 'remove']),
    table: text,
    columns: list(text),
    changed: z.boolean(),
    followed: z.boolean(),
  }),
  run,
  cancel: object({
    run: count,
    state: text.describe('`running`: cancelled, and still finishing what is under way'),
    reason: text.nullable(),
    cancelled_by: text.nullable(),
    follow: z.boolean(),
    sources: list(text),
  }),
  undo: object({
    run: count.nullable().describe('the run that the undo is; null: nothing was written'),
    undoes: count,
    writes_again: z.boolean(),
    dry_run: z.boolean(),
    status: z.enum(['completed', 'interrupted']),
    undone_by: list(count),
    waiting: count,
    changes: counts([
      'total',
      'restored',
      'kept',
      'row_missing',
      'rejected',
      'undone_before',
      'not_configured',
      'remaining',
    ]),
    cells: counts(['restored', 'touched', 'kept']),
    columns: list(object({ source: text, column: text, restored: count, kept: count })),
    kept: list(
      object({
        source: text,
        key: text,
        columns: list(text),
        written_by: count.nullable(),
        inputs_changed: z.boolean().describe('the row has other inputs than when it was written'),
      }),
    ),
    failed: list(object({ source: text, key: text, outcome: text, reason: text.nullable() })),
    duration_ms: count,
  }),
  forget: object({
    dry_run: z.boolean(),
    tombstones: list(object({ kind: text, hash: text })),
    erased: byName(count),
    rows: list(object({ source: text, key: text })),
    searched: object({ tables: count, columns: count, sources: list(text) }),
    remaining: list(object({ table: text, column: text, rows: count })),
  }),
  'forget --deleted': object({
    dry_run: z.boolean(),
    source: text,
    deleted: count.describe('deleted rows that were set aside'),
    erased: counts(['rows', 'lookups', 'records', 'changes', 'results'])
      .nullable()
      .describe('null: a dry run'),
  }),
  pause: object({ changed: list(text), paused: pausedSources }),
  resume: object({ changed: list(text), paused: pausedSources }),
  schedule: object({ schedule: scheduled }),
  failures: object({
    total: count,
    reasons: list(object({ source: text, state: text, reason: text, rows: count })),
    cells: skippedCells,
    rows: list(object({ source: text, key: text, state: text, reason: text.nullable(), settled_at: time })),
    skipped_cells: list(anything).describe('the latest skipped cells, one by one'),
  }),
  runs: object({
    runs: list(storedRun.extend({ spend: spend.describe('killed and running runs included') })),
  }),
  jobs: object({
    jobs: list(storedJob.extend({ attempts: count, polls: count, poll_at: time.nullable() })),
  }),
  status: object({
    troubles: list(
      object({
        code: text,
        subject: text.describe('service and key, source, schedule or process; empty: there is only one'),
        severity: text.describe('error or warning'),
        since: time,
        title: text,
        meaning: text.describe('what it means for the rows'),
        action: text.describe('what to do about it'),
      }),
    ).describe('what is wrong now, errors first'),
    rows: byName(object({ total: count, ...rowStates })).describe('by source'),
    jobs: byName(count).describe('by state'),
    deliveries: byName(count).describe('by state'),
    quarantined_results: count,
    running_runs: count,
    last_run: storedRun.nullable(),
    spend: spendReport,
    paused: pausedSources,
    deleted: list(
      object({
        source: text,
        is_kept: z.boolean(),
        rows: count,
        since: time,
        held: text.nullable().describe('why they are not erased'),
      }),
    ).describe('rows that their table no longer has'),
    limits: list(
      object({
        scope: text,
        limit: count,
        window_ms: z.number().nullable(),
        observed_at: time,
        status: object({
          state: text,
          limit: count.nullable(),
          window_ms: z.number().nullable(),
          window_at_most_ms: z.number().nullable(),
          used: count,
          permitted: z.number().nullable(),
          utilisation: z.number().nullable().describe('0 to 1'),
          window_used: count,
          next_window_at: time.nullable(),
          stall_reason: text.nullable(),
          throttled: count,
          shared_key: z.boolean(),
          reported_at: time,
          live: z.boolean(),
        }).nullable(),
      }),
    ),
    fill_rate: byName(z.union([text, fillCounts.extend({ measured_at: time })])).describe(
      'by source; a text says why it is unknown',
    ),
    configuration_problems: list(problem).nullable(),
  }),
  explain: object({
    source: text,
    key: text,
    table: text,
    row: object({
      exists: z.boolean(),
      excluded_by: text.nullable(),
      join_count: count,
      problem: text.nullable(),
      fresh_until: time.nullable(),
      inputs: byName(text.nullable()),
      filled_inputs: byName(text),
      lookup_request: object({ kind: text, input: byName(text) }).nullable(),
      is_suppressed: z.boolean(),
      input_notes: list(object({ input: text, reason: text })),
      columns: list(
        object({
          column: text,
          value: anything,
          blank: z.boolean(),
          policy: text.nullable(),
          written_by_fillrate: z.boolean().nullable(),
          written_by_source: text.nullable(),
          written_by: count.nullable().describe('a run'),
        }),
      ),
    }),
    state: object({
      state: z.enum(ROW_STATES),
      reason: text.nullable(),
      notes: byName(anything).nullable(),
      run: count.nullable(),
      alive: z.boolean(),
      inputs_changed: z.boolean(),
      picked_at: time,
      settled_at: time.nullable(),
      due_at: time.nullable(),
    })
      .nullable()
      .describe('null: never picked'),
    lookup: storedLookup.nullable(),
    missed_lookups: list(storedLookup),
    job: storedJob.nullable(),
    deliveries: list(
      object({
        event_id: text,
        state: text,
        reason: text.nullable(),
        received_at: time,
        settled_at: time.nullable(),
      }),
    ),
    record: anything.describe('as the service sent it'),
    fields: list(
      object({ field: text, column: text, value: anything, skipped: text.nullable(), result: text }),
    ),
    changes: list(
      object({
        id: count,
        run: count.nullable(),
        written_at: time,
        undoes: count.nullable(),
        undone_by: count.nullable(),
        cells: list(object({ column: text, before: anything, after: anything, undone: z.boolean() })),
      }),
    ),
    next: object({ what: text, at: time.nullable() }),
  }),
  retry: object({
    dry_run: z.boolean(),
    rows: count,
    reasons: list(object({ source: text, state: text, reason: text, rows: count })),
    lookups: count,
    without_call: count,
    row_missing: count,
    complete: count,
  }),
  remap: run
    .omit({ dry_run: true })
    .partial()
    .extend({
      dry_run: z.boolean(),
      source: text,
      examined: counts([
        'rows',
        'changed',
        'unchanged',
        'below_confidence',
        'inputs_changed',
        'row_missing',
        'undone',
        'cells',
      ]),
      skipped_cells: skippedCells,
      ...dryRun,
    })
    .describe('with the fields of a run if anything was written'),
  init: object({
    written: text.nullable(),
    examined: object({ tables: count, schemas: list(text) }),
    sources: list(
      object({
        name: text,
        kind: z.enum(['person', 'company']),
        table: text,
        rows: count.nullable(),
        joins: text.nullable(),
        key: list(text).nullable(),
        where: text.nullable(),
        changed_at: text.nullable(),
        freshness: text.nullable(),
        touch: object({ column: text, sql: text }).nullable(),
        notes: list(text),
        inputs: list(object({ input: text, sql: text })),
        outputs: list(proposedOutput),
        skipped_columns: list(object({ column: text, reason: text, output: proposedOutput.optional() })),
        sample: object({ rows: count, identified_by: byName(count) }),
        fill_rate: fillCounts.nullable(),
      }),
    ),
    skipped_tables: list(object({ table: text, reason: text })),
  }),
  serve: object({ listens: text.nullable(), public_url: text.nullable(), bulk }),
  start: object({
    listens: text.nullable().optional().describe('in the first object'),
    public_url: text.nullable().optional(),
    schedule: scheduled.optional().describe('in the next, and again after each reload'),
    follows: list(text).optional().describe('sources in live sync'),
  }),
} as const
