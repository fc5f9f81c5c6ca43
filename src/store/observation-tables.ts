import type { Generated, JSONColumnType } from 'kysely'
import type { ConditionDetails, ConditionKind } from '../domain/condition.ts'

type DefaultJson<Value extends object> = JSONColumnType<Value, string | undefined, string>

/** Tables of what was observed, for display and notifications: no step reads them. */
export interface ObservationTables {
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
