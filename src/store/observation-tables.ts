import type { Generated, JSONColumnType } from 'kysely'
import type { FillrateNotification } from '../domain/notification.ts'
import type { Trouble, TroubleCode, TroubleDetails } from '../domain/trouble.ts'

type Json<Value extends object> = JSONColumnType<Value, string, string>
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
  'fillrate.troubles': {
    id: Generated<number>
    code: TroubleCode
    subject: string
    severity: Trouble['severity']
    details: DefaultJson<TroubleDetails>
    began_at: Date
    seen_at: Date
    known_at: Date
    ended_at: Date | null
    reported_by: string
    notified: Generated<'none' | 'begin' | 'end'>
  }
  'fillrate.notifications': {
    id: Generated<number>
    event_id: string
    event: string
    about: string
    target: string
    host: string
    body: Json<FillrateNotification>
    state: Generated<'pending' | 'delivered' | 'given_up'>
    reason: string | null
    attempts: Generated<number>
    created_at: Generated<Date>
    not_before: Date
    lease_token: string | null
    leased_until: Date | null
    finished_at: Date | null
  }
}
