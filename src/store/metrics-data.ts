import { sql } from 'kysely'
import { listQueuedChanges, type QueuedChanges } from './changed-rows.ts'
import type { MetricCounter } from './metrics.ts'
import type { Connection } from './transaction.ts'

export type { MetricCounter } from './metrics.ts'

/** When a run of this trigger and outcome ended last. */
export interface RunEnd {
  readonly trigger: string
  /** As in a run's report; the state where a killed run left none. */
  readonly status: string
  readonly at: Date
}

/** What `/metrics` needs beyond the data of the dashboard. */
export interface StoredMetrics {
  /** In the order of the exposition. */
  readonly counters: readonly MetricCounter[]
  readonly runEnds: readonly RunEnd[]
  /** Age of the oldest unsettled delivery; 0 if there is none. */
  readonly oldestDeliverySeconds: number
  readonly backlogs: readonly QueuedChanges[]
  /** Scopes whose circuit is open. */
  readonly openCircuits: readonly string[]
}

export async function readStoredMetrics(db: Connection): Promise<StoredMetrics> {
  const { rows: counters } = await sql<MetricCounter>`
    select name, labels, value from fillrate.metric_counters order by name, labels`.execute(db)
  const { rows: runEnds } = await sql<RunEnd>`
    select trigger, coalesce(totals ->> 'status', state) as status, max(finished_at) as at
      from fillrate.runs where finished_at is not null group by 1, 2 order by 1, 2`.execute(db)
  const { rows: deliveries } = await sql<{ seconds: number }>`
    select coalesce(extract(epoch from now() - min(received_at)), 0)::float8 as seconds
      from fillrate.deliveries where state = 'received'`.execute(db)
  const { rows: circuits } = await sql<{ scope: string }>`
    select scope from fillrate.circuit_breakers`.execute(db)
  return {
    counters,
    runEnds,
    oldestDeliverySeconds: deliveries[0]?.seconds ?? 0,
    backlogs: await listQueuedChanges(db),
    openCircuits: circuits.map(({ scope }) => scope),
  }
}
