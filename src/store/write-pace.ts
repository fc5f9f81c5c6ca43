import { sql } from 'kysely'
import { grantWrites, type WriteGrant, type WritePace } from '../domain/write-pace.ts'
import type { Connection, Tx } from './transaction.ts'

// How fast a source with `writes` is written, for all processes together: one row a source, by Postgres's clock. A batch charges it
// in its own transaction, so that neither a crash nor an unknown COMMIT writes more than is counted.

interface StoredPace extends WritePace {
  readonly now: number
}

const columnsSql = sql`
  allowance, extract(epoch from at)::float8 * 1000 as at, extract(epoch from clock_timestamp())::float8 * 1000 as now`

/** What a batch may write, as of a time. */
export interface LockedWriteGrant extends WriteGrant {
  readonly at: number
}

/** What may be written to a source now. Notes that a write waits, for those who wonder why. */
export async function readWriteGrant(db: Connection, source: string, perHour: number): Promise<WriteGrant> {
  // Begins a source, and takes a new limit over.
  await sql`
    insert into fillrate.write_pace as p (source, per_hour, allowance)
    values (${source}, ${perHour}, ${grantWrites(perHour, null, 0).allowance})
    on conflict (source) do update set per_hour = excluded.per_hour where p.per_hour <> excluded.per_hour`.execute(
    db,
  )
  const { rows } = await sql<StoredPace>`
    select ${columnsSql} from fillrate.write_pace where source = ${source}`.execute(db)
  const grant = grantStored(rows[0], perHour)
  if (grant.waitMs > 0)
    await sql`
      update fillrate.write_pace set slowed_at = now()
       where source = ${source} and (slowed_at is null or slowed_at < now() - interval '5 seconds')`.execute(
      db,
    )
  return grant
}

/** The same, locked until the transaction ends; no rows while another process writes to the source. */
export async function lockWriteGrant(tx: Tx, source: string, perHour: number): Promise<LockedWriteGrant> {
  const { rows } = await sql<StoredPace>`
    select ${columnsSql} from fillrate.write_pace where source = ${source} for update skip locked`.execute(tx)
  return { ...grantStored(rows[0], perHour), at: rows[0]?.now ?? 0 }
}

const grantStored = (pace: StoredPace | undefined, perHour: number): WriteGrant =>
  pace === undefined ? { allowance: 0, rows: 0, waitMs: 0 } : grantWrites(perHour, pace, pace.now)

/** Charges the rows that a batch has written. */
export async function chargeWrites(tx: Tx, source: string, { allowance, at }: WritePace): Promise<void> {
  await sql`
    update fillrate.write_pace set allowance = ${allowance}, at = to_timestamp(${at}::float8 / 1000)
     where source = ${source}`.execute(tx)
}

/** A source whose writes wait for its limit. */
export interface SlowedWrites {
  readonly source: string
  readonly per_hour: number
}

/** The sources whose writes have waited in the last half minute. */
export async function listSlowedWrites(db: Connection, sources: readonly string[]): Promise<SlowedWrites[]> {
  const slowed = db.selectFrom('fillrate.write_pace').select(['source', 'per_hour'])
  return slowed
    .where('source', 'in', ['', ...sources])
    .where(sql<boolean>`slowed_at > now() - interval '30 seconds'`)
    .orderBy('source')
    .execute()
}
