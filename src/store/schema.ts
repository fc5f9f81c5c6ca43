import type { Generated, JSONColumnType } from 'kysely'
import type { ConditionKind } from '../domain/condition.ts'
import type { JobState } from '../domain/job.ts'
import type { RunState, StoredRunOptions, Trigger } from '../domain/run.ts'

/** JSON of which no type is given is validated where it is read. It is written as text. */
type Json<Value extends object = object> = JSONColumnType<Value, string, string>
type DefaultJson<Value extends object = object> = JSONColumnType<Value, string | undefined, string>

/**
 * The columns that plain statements of one table, built by Kysely, read and write. The others are in statements of their own, whose
 * rows the tests hold against their types.
 */
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
    /** Null: it was not cancelled. */
    cancelled_by: string | null
    totals: Json | null
    scopes: DefaultJson<Record<string, string>>
    failed_scope: string | null
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
  }
  'fillrate.jobs': {
    key: string
    job_id: string | null
    state: JobState
    reason: string | null
    size: number
    run_id: number | null
    created_at: Generated<Date>
    submitted_at: Date | null
    deadline_at: Date
    finished_at: Date | null
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
    seen_at: Generated<Date>
    refused: string | null
    refused_at: Date | null
    problem: string | null
  }
  'fillrate.audit_events': {
    id: Generated<number>
    origin: 'dashboard' | 'command line' | 'library'
    outcome: 'done' | 'interrupted' | 'failed' | null
    detail: string | null
    run_id: number | null
    finished_at: Date | null
  }
}
