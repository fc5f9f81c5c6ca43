import type { Database } from '../store/open.ts'
import * as rateLimits from '../store/rate-limits.ts'
import * as rateTold from '../store/rate-told.ts'

/** A key's limit, and how it is used. */
export interface Quota extends rateLimits.KnownLimit {
  readonly scope: string
  /** What the process that calls told last. Null: nothing yet. */
  readonly told: rateTold.Heard | null
}

/** All limits that are known, the latest first. */
export async function readQuotas(db: Database): Promise<Quota[]> {
  const told = await rateTold.heard(db)
  return (await rateLimits.list(db)).map((one) => ({ ...one, told: told.get(one.scope) ?? null }))
}
