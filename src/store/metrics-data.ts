import { sql } from 'kysely'
import { listQueuedChanges, type QueuedChanges } from './changed-rows.ts'
import type { Database } from './open.ts'
import { readOne } from './sql.ts'

/** When a run of this trigger and outcome ended last. */
interface RunEnd {
  readonly trigger: string
  /** As in a run's report; the state where a killed run left none. */
  readonly status: string
  readonly at: Date
}

interface SpentToday {
  readonly service: string
  readonly source: string
  readonly lookups: number
  readonly calls: number
}

/** What `/metrics` needs beyond the data of the dashboard. */
export interface StoredMetrics {
  readonly runEnds: readonly RunEnd[]
  /** Age of the oldest unsettled delivery; 0 if there is none. */
  readonly oldestDeliverySeconds: number
  readonly backlogs: readonly QueuedChanges[]
  /** What was called and billed since midnight UTC, by service and source: zeros of what was spent before. */
  readonly spentToday: readonly SpentToday[]
}

export async function readStoredMetrics(db: Database): Promise<StoredMetrics> {
  const { rows: runEnds } = await sql<RunEnd>`
    select trigger, coalesce(totals ->> 'status', state) as status, max(finished_at) as at
      from fillrate.runs where finished_at is not null group by 1, 2 order by 1, 2`.execute(db)
  const oldest = sql<{ seconds: number }>`
    select coalesce(extract(epoch from now() - min(received_at)), 0)::float8 as seconds
      from fillrate.deliveries where state = 'received'`
  const oldestDeliverySeconds = (await readOne(db, oldest)).seconds
  const { rows: spentToday } = await sql<SpentToday>`
    select coalesce(v.name, v.host) as service, s.source,
           coalesce(sum(s.lookups) filter (where s.day = (now() at time zone 'UTC')::date), 0)::float8 as lookups,
           coalesce(sum(s.calls) filter (where s.day = (now() at time zone 'UTC')::date), 0)::float8 as calls
      from fillrate.spend s
      join fillrate.services v on v.id = s.service_id
     where s.day > (now() at time zone 'UTC')::date - 30
     group by 1, 2 order by 1, 2`.execute(db)
  return {
    runEnds,
    oldestDeliverySeconds,
    backlogs: await listQueuedChanges(db),
    spentToday,
  }
}
