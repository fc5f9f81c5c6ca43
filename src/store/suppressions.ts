import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { jsonBatch } from './batch.ts'
import type { Database } from './open.ts'
import type { StoreTransaction } from './transaction.ts'

/** The tombstone of what must never be asked again: it must not itself tell what that was. */
export function suppressionHash(kind: LookupKind, key: string): string {
  return createHash('sha256').update(`${kind}\n${key}`).digest('hex')
}

/** Which of these are suppressed, in the same order. */
export async function areSuppressed(
  db: Database | StoreTransaction,
  lookups: readonly { readonly kind: LookupKind; readonly key: string }[],
): Promise<boolean[]> {
  if (lookups.length === 0) return []
  const hashes = lookups.map((one) => ({ kind: one.kind, hash: suppressionHash(one.kind, one.key) }))
  const { rows } = await sql<{ kind: LookupKind; hash: string }>`
    select s.kind, s.hash from fillrate.suppressions s
      join jsonb_to_recordset(${jsonBatch(hashes)}) as v (kind text, hash text)
        on v.kind = s.kind and v.hash = s.hash`.execute(db)
  const found = new Set(rows.map((row) => `${row.kind} ${row.hash}`))
  return hashes.map((one) => found.has(`${one.kind} ${one.hash}`))
}
