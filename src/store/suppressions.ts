import { hash } from 'node:crypto'
import { sql } from 'kysely'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { listNameKeys } from '../domain/identifiers/name-company.ts'
import { type Identifier, identifierText } from '../domain/subject.ts'
import { isTrue, jsonBatch } from './sql.ts'
import { hasSuppressionsSql } from './terms.ts'
import type { Connection, Tx } from './transaction.ts'

/** The suppression hash (tombstone) of an identifier that must never be looked up again. Does not reveal it. */
export function suppressionHash(kind: LookupKind, key: string): string {
  return hash('sha256', `${kind}\n${key}`)
}

/** The hashes of an identifier in all of its forms: services that take other details of a name have keys of other forms. */
const toHashes = ({ kind, key }: Identifier) =>
  (kind === 'name_company' ? listNameKeys(key) : [key]).map((form) => ({
    kind,
    hash: suppressionHash(kind, form),
  }))

/** Whether anything was ever erased. */
export const hasSuppressions = (db: Connection): Promise<boolean> => isTrue(db, hasSuppressionsSql)

/** Which of these hashes are suppressed. */
export async function findHashes(db: Connection, hashes: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ hash: string }>`
    select hash from fillrate.suppressions where hash = any(${[...hashes]}::text[])`.execute(db)
  return rows.map((row) => row.hash)
}

/** Inserts the suppression hashes of erased lookups, each once, in all forms of their keys. */
export async function insertSuppressions(tx: Tx, lookups: readonly Identifier[]): Promise<void> {
  if (lookups.length === 0) return
  const hashes = lookups.flatMap(toHashes)
  await sql`
    insert into fillrate.suppressions (kind, hash)
    select v.kind, v.hash from jsonb_to_recordset(${jsonBatch(hashes)}) as v (kind text, hash text)
     order by v.kind, v.hash
    on conflict do nothing`.execute(tx)
}

/**
 * Waits for every open transaction that stores what the suppressions allowed (`lockToReadSql`), and blocks others until this one
 * ends: they see what it inserts. Plain readers, such as pg_dump, neither wait nor are waited for. New writers queue behind
 * this wait, so that it is short, and the caller repeats it.
 */
export async function lockExclusively(tx: Tx): Promise<void> {
  await sql`set local lock_timeout = '500ms'`.execute(tx)
  await sql`lock table fillrate.suppressions in exclusive mode`.execute(tx)
}

/** Takes suppressions back: suppressed rows are picked again, and those whose identifiers are still suppressed stay so. @returns how many */
export async function deleteSuppressions(tx: Tx, lookups: readonly Identifier[]): Promise<number> {
  const hashes = lookups.map((lookup) => suppressionHash(lookup.kind, lookup.key))
  const deleted = await sql`delete from fillrate.suppressions where hash = any(${hashes}::text[])`.execute(tx)
  if ((deleted.numAffectedRows ?? 0n) > 0n)
    await sql`update fillrate.rows set due_at = now() where state = 'suppressed'`.execute(tx)
  return Number(deleted.numAffectedRows)
}

export interface StoredSuppression {
  readonly kind: LookupKind
  readonly hash: string
  readonly since: Date
}

/** Suppressions, the latest first. @param lookups of these identifiers; null: all */
export async function listSuppressions(
  db: Connection,
  lookups: readonly Identifier[] | null,
): Promise<StoredSuppression[]> {
  const hashes = lookups?.map((lookup) => suppressionHash(lookup.kind, lookup.key)) ?? null
  const { rows } = await sql<StoredSuppression>`
    select kind, hash, created_at as since from fillrate.suppressions
     where ${hashes === null ? sql`true` : sql`hash = any(${hashes}::text[])`}
     order by created_at desc, kind, hash`.execute(db)
  return rows
}

/** Which of these lookups are suppressed, in any form of their keys, by `identifierText`. */
export async function findSuppressed(
  db: Connection,
  lookups: readonly Identifier[],
): Promise<ReadonlySet<string>> {
  const forms = lookups.flatMap((lookup) =>
    toHashes(lookup).map(({ hash: form }) => [identifierText(lookup), form] as const),
  )
  const found = new Set(
    forms.length === 0
      ? []
      : await findHashes(
          db,
          forms.map(([, form]) => form),
        ),
  )
  return new Set(forms.flatMap(([text, form]) => (found.has(form) ? [text] : [])))
}
