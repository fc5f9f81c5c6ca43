import { normalizeDomain } from '../../domain/identifiers/domain.ts'
import { isObject } from '../../domain/json.ts'
import { eraseLookups } from '../../store/erase.ts'
import type { Answer } from '../../store/leases.ts'
import type { Database } from '../../store/open.ts'
import * as suppressions from '../../store/suppressions.ts'
import { inTransaction } from '../../store/transaction.ts'
import { identifiersIn } from './redact.ts'

/** Of whom a record tells, as tombstones would: it may have been asked for by another name than was erased. */
export function hashesOf(record: unknown): string[] {
  if (!isObject(record)) return []
  const { domain } = record
  const company = typeof domain === 'string' ? normalizeDomain(domain) : null
  return [
    ...identifiersIn(record).map(({ kind, key }) => suppressions.suppressionHash(kind, key)),
    ...(company?.ok ? [suppressions.suppressionHash('domain', company.key)] : []),
  ]
}

/** Erases the lookups of answers that were not stored because of a tombstone. Others are left alone. */
export async function eraseAnswered(db: Database, unstored: readonly Answer[]): Promise<void> {
  if (unstored.every(({ hashes = [] }) => hashes.length === 0)) return
  await inTransaction(db, async (tx) => {
    const erased = new Set(
      await suppressions.among(
        tx,
        unstored.flatMap(({ hashes = [] }) => hashes),
      ),
    )
    const ids = unstored
      .filter(({ hashes = [] }) => hashes.some((hash) => erased.has(hash)))
      .map(({ id }) => id)
    if (ids.length > 0) await eraseLookups(tx, ids)
  })
}
