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

const run = object({
  run: count,
  status: z.enum(['completed', 'budget_reached', 'interrupted', 'unauthorized', 'failed']),
  reason: text.nullable(),
  cancelled_by: text.optional().describe('who cancelled it'),
  rows: object({ picked: count.describe('the sum of the others'), ...rowStates }),
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
  requests: counts(['person', 'company', 'bulk', 'retried', 'throttled']),
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
const pausedSources = list(object({ source: text, paused_at: time, paused_by: text }))
const bulk = object({ possible: z.boolean(), reason: text.nullable(), todo: text.nullable() })

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
    kept: list(object({ source: text, key: text, columns: list(text), written_by: count.nullable() })),
    failed: list(object({ source: text, key: text, outcome: text, reason: text.nullable() })),
    duration_ms: count,
  }),
  forget: object({
    dry_run: z.boolean(),
    tombstones: list(object({ kind: text, hash: text })),
    erased: byName(count),
    rows: list(object({ source: text, key: text })),
    searched: counts(['tables', 'columns']),
    remaining: list(object({ table: text, column: text, rows: count })),
  }),
  pause: object({ changed: list(text), paused: pausedSources }),
  resume: object({ changed: list(text), paused: pausedSources }),
  schedule: object({
    schedule: list(
      object({
        cron: text,
        timezone: text,
        sources: list(text),
        limit: count.nullable(),
        budget: z.union([count, z.literal('unlimited')]).nullable(),
        catch_up: z.boolean(),
        next: list(time),
      }),
    ),
  }),
  failures: object({
    total: count,
    reasons: list(object({ source: text, state: text, reason: text, rows: count })),
    cells: skippedCells,
    rows: list(object({ source: text, key: text, state: text, reason: text.nullable(), settled_at: time })),
    skipped_cells: list(anything).describe('the latest skipped cells, one by one'),
  }),
  runs: object({ runs: list(storedRun) }),
  jobs: object({
    jobs: list(
      object({
        key: text,
        job_id: text.nullable(),
        state: z.enum(Object.values(Job)),
        reason: text.nullable(),
        size: count,
        attempts: count,
        run: count.nullable(),
        created_at: time,
        submitted_at: time.nullable(),
        deadline_at: time,
        finished_at: time.nullable(),
      }),
    ),
  }),
} as const
