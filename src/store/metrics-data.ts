import { sql } from 'kysely'
import { listQueuedChanges, type QueuedChanges } from './changed-rows.ts'
import { readOne } from './sql.ts'
import type { Connection } from './transaction.ts'

/** When a run of this trigger and outcome ended last. */
interface RunEnd {
  readonly trigger: string
  /** As in a run's report; the state where a killed run left none. */
  readonly status: string
  readonly at: Date
}

/** What `/metrics` needs beyond the data of the dashboard. */
export interface StoredMetrics {
  readonly runEnds: readonly RunEnd[]
  /** Age of the oldest unsettled delivery; 0 if there is none. */
  readonly oldestDeliverySeconds: number
  readonly backlogs: readonly QueuedChanges[]
  /** Scopes whose circuit is open. */
  readonly openCircuits: readonly string[]
}

export async function readStoredMetrics(db: Connection): Promise<StoredMetrics> {
  const { rows: runEnds } = await sql<RunEnd>`
    select trigger, coalesce(totals ->> 'status', state) as status, max(finished_at) as at
      from fillrate.runs where finished_at is not null group by 1, 2 order by 1, 2`.execute(db)
  const oldest = sql<{ seconds: number }>`
    select coalesce(extract(epoch from now() - min(received_at)), 0)::float8 as seconds
      from fillrate.deliveries where state = 'received'`
  const oldestDeliverySeconds = (await readOne(db, oldest)).seconds
  const circuits = await db.selectFrom('fillrate.circuit_breakers').select('scope').execute()
  return {
    runEnds,
    oldestDeliverySeconds,
    backlogs: await listQueuedChanges(db),
    openCircuits: circuits.map(({ scope }) => scope),
  }
}
