import type { Generated, JSONColumnType } from 'kysely'

type Json = JSONColumnType<object, string, string>

/** Tables of what was observed, for display and notifications: no step reads them. */
export interface ObservationTables {
  'fillrate.fill_rate_samples': {
    source: string
    at: Generated<Date>
    eligible: number
    filled: Json
    took_ms: number
    table_node: string | null
  }
  'fillrate.troubles': {
    id: Generated<number>
    code: string
    subject: string
    severity: string
    details: Generated<Json>
    began_at: Date
    seen_at: Date
    known_at: Date
    ended_at: Date | null
    reported_by: string
    notified: Generated<'none' | 'begin' | 'end'>
  }
  'fillrate.request_counts': {
    at: Date
    endpoint: string
    status: string
    calls: number
    durations: Generated<number[]>
    max_ms: Generated<number>
  }
  'fillrate.metric_counters': { name: string; labels: string; value: number }
}
