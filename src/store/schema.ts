import type { Generated, GeneratedAlways, JSONColumnType } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import type { DeliveryState, JobState } from '../domain/job.ts'
import type { LookupState } from '../domain/lookup.ts'
import type { CircuitCause, LimitUsage, RateStatus } from '../domain/rate-status.ts'
import type { RequestedRun } from '../domain/requested-run.ts'
import type { FailureState, RowState } from '../domain/row.ts'
import type { RunState, StoredRunOptions, Trigger } from '../domain/run.ts'
import type { ScheduledRunState } from '../domain/schedule.ts'
import type { SkipReason } from '../domain/skipped-cell.ts'
import type { BilledEndpoint } from '../domain/spend.ts'
import type { ConditionDetails, ConditionKind } from '../domain/condition.ts'

/** JSON of which no type is given is validated where it is read. It is written as text. */
type Json<Value extends object = object> = JSONColumnType<Value, string, string>
type DefaultJson<Value extends object = object> = JSONColumnType<Value, string | undefined, string>

export interface Schema {
  'fillrate.runs': {
    id: Generated<number>
    trigger: Trigger
    sources: string[]
    options: DefaultJson<StoredRunOptions>
    state: RunState
    reason: string | null
    failed_for: ConditionKind | null
    owner: string
    lease_token: string
    leased_until: Date
    started_at: Generated<Date>
    picking_finished_at: Date | null
    finished_at: Date | null
    cancelled_at: Date | null
    /** Null: it was not cancelled. */
    cancelled_by: string | null
    totals: Json | null
    budget_name: string | null
    bound: Json | null
    scopes: DefaultJson<Record<string, string>>
    failed_scope: string | null
    gathering: Generated<number[]>
    /** The version of Fillrate that made it; null: one that did not store it. */
    version: string | null
  }
  'fillrate.services': {
    /** When a person wanted it to be tried at once, last. */
    try_at: Date | null
    id: number
    /** The host, with the path in front of `/v1` if there is one. */
    host: string
    /** In the configuration; null: it has one service. */
    name: string | null
    first_seen_at: Generated<Date>
  }
  'fillrate.lookups': {
    id: Generated<number>
    enqueued_at: Generated<Date>
    run_id: number | null
    unconfirmed_calls: Generated<number>
    service_id: Generated<number>
    sync_only: Generated<boolean>
    kind: LookupKind
    key: string
    input: Json
    source: string | null
    job_key: string | null
    attempts: Generated<number>
    state: LookupState
    reason: string | null
    not_before: Date | null
    lease_token: string | null
    leased_until: Date | null
    malformed: Json | null
    most: number | null
    requested_at: Date | null
    resolved_at: Date | null
    refresh_at: Date | null
    confidence: number | null
    record: Json | null
    is_pending: GeneratedAlways<boolean | null>
    is_leased: GeneratedAlways<boolean | null>
  }
  'fillrate.answered_lookups': { lookup_id: number }
  'fillrate.rows': {
    lookup_id: number | null
    run_id: number | null
    /** Read as text: most are beyond 2^53. */
    input_hash: string | null
    picked_at: Generated<Date>
    service_id: Generated<number>
    only_blanks: Generated<boolean>
    source: string
    key: string
    state: RowState
    deleted_at: Date | null
    is_kept: boolean | null
    may_be_hidden: boolean | null
    due_at: Date | null
    settled_at: Date | null
    reason: string | null
    cells_written: Generated<number>
    cells_protected: Generated<number>
    cells_skipped: Generated<number>
    missed_lookup_ids: number[] | null
    notes: Json | null
    own_writes: Json | null
    earlier_writes: Json | null
    last_written: Json | null
    is_requeued: GeneratedAlways<boolean | null>
    failure: FailureState | null
  }
  'fillrate.row_counts': { source: string; state: RowState; run_id: number | null; rows: number }
  'fillrate.jobs': {
    key: string
    service_id: Generated<number>
    job_id: string | null
    state: JobState
    reason: string | null
    size: number
    attempts: Generated<number>
    run_id: number | null
    scope: string | null
    lookup_ids: number[]
    is_company: Generated<boolean>
    members_by_source: DefaultJson
    credits_by_source: DefaultJson
    most: Json | null
    credits: number | null
    credits_stated: number | null
    request_ids: Json | null
    not_before: Date | null
    lease_token: string | null
    leased_until: Date | null
    created_at: Generated<Date>
    submitted_at: Date | null
    deadline_at: Date
    finished_at: Date | null
    release_at: Date | null
    poll_at: Date | null
    polls: Generated<number>
    cursor: string | null
    pages: Generated<number>
    is_async_answer: Generated<boolean>
  }
  'fillrate.spend': {
    run_id: number
    day: Generated<Date>
    service_id: number
    source: string
    endpoint: BilledEndpoint
    calls: Generated<number>
    retried: Generated<number>
    throttled: Generated<number>
    lookups: Generated<number>
    in_doubt: Generated<number>
    credits: Generated<number>
    credits_in_doubt: Generated<number>
    overrun: number | null
  }
  'fillrate.deliveries': {
    id: Generated<string>
    event_id: string
    service_id: number | null
    job_key: string | null
    job_id: string | null
    state: DeliveryState
    reason: string | null
    received_at: Generated<Date>
    body: string | null
    raw: Buffer | null
    settled_at: Date | null
    quarantined_results: Generated<number>
  }
  'fillrate.skipped_cells': {
    source: string
    key: string
    column: string
    run_id: number | null
    lookup_id: number | null
    reason: SkipReason
    detail: string | null
    value: Json | null
    skipped_at: Generated<Date>
  }
  'fillrate.changes': {
    id: Generated<number>
    run_id: number | null
    lookup_id: number | null
    input_hash: string | null
    written_at: Generated<Date>
    source: string
    key: string
    before: Json
    after: Json
    last_written_before: Json | null
    earlier_writes_before: Json | null
    undone_by_change_id: number | null
  }
  'fillrate.suppressions': { kind: LookupKind; hash: string; created_at: Generated<Date> }
  'fillrate.leases': {
    scope: string
    lease_token: string
    leased_until: Date
    acquired_at: Generated<Date>
    owner: string
  }
  'fillrate.rate_limits': {
    scope: string
    service_id: Generated<number>
    limit: number | null
    window_ms: number | null
    observed_at: Date
    exhausted_at: Date | null
    exhausted_until: Json | null
    usage: Json<LimitUsage> | null
    usage_at: Date | null
    status: Json<RateStatus> | null
    reported_at: Date | null
  }
  'fillrate.source_state': {
    source: string
    configured_at: Date | null
    paused_at: Date | null
    /** A user of the command line, or the name of a dashboard token. */
    paused_by: string | null
    pause_reason: string | null
    /** When the pause ends by itself; null: when the source is resumed. */
    resume_at: Date | null
    mapping_hash: string | null
    changed_until: Date | null
    started_at: Date | null
    running_transactions: Json | null
    full_pass_at: Date | null
    due_after: Date | null
    per_hour: number | null
    /** Rows that may be written, at `allowed_at`. */
    allowance: number | null
    allowed_at: Date | null
    /** When a write has waited for it last. */
    slowed_at: Date | null
  }
  'fillrate.processes': {
    owner: string
    role: 'start' | 'serve' | 'run'
    host: string
    pid: number
    version: string
    node_version: string
    config: Json
    config_path: string | null
    started_at: Date
    config_loaded_at: Generated<Date>
    seen_at: Generated<Date>
    refused: string | null
    refused_at: Date | null
    problem: string | null
  }
  'fillrate.changed_rows': {
    changed_at: Generated<Date>
    id: Generated<string>
    source: string
    keys: string[]
    is_import: boolean
    is_delete: Generated<boolean>
    rows: GeneratedAlways<number>
    rows_picked: Generated<number>
  }
  'fillrate.changed_rows_spare': Schema['fillrate.changed_rows']
  'fillrate.scheduled_runs': {
    schedule: string
    at: Date
    sources: string[]
    state: ScheduledRunState
    /** Why it was skipped, waits, or ended otherwise than completed. */
    reason: string | null
    attempts: Generated<number>
    run_id: number | null
    owner: string | null
    lease_token: string | null
    leased_until: Date | null
    finished_at: Date | null
    request: Json<{ id: string; work: RequestedRun; by: string }> | null
  }
  'fillrate.circuit_breakers': {
    scope: string
    opened_at: Generated<Date>
    probe_at: Date
    stored_at: Generated<Date>
    backoff_ms: number
    reason: string | null
    cause: CircuitCause | 'key_refused'
    service_id: Generated<number>
  }
  // What was observed, for display and notifications: no step reads them.
  'fillrate.audit_events': {
    id: Generated<number>
    at: Generated<Date>
    actor: string
    origin: 'dashboard' | 'command line' | 'library'
    action: string
    parameters: DefaultJson<Record<string, unknown>>
    outcome: 'done' | 'interrupted' | 'failed' | null
    detail: string | null
    run_id: number | null
    request_id: string | null
    finished_at: Date | null
  }
  'fillrate.conditions': {
    id: Generated<number>
    kind: ConditionKind
    service: string | null
    source: string | null
    details: DefaultJson<ConditionDetails>
    began_at: Date
    seen_at: Date
    ended_at: Date | null
    is_reported: Generated<boolean>
    accepted_by: Generated<string[]>
  }
}
