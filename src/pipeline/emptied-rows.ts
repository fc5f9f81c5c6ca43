import { sql } from 'kysely'
import { Row, UNDONE_NOTE } from '../domain/row.ts'
import { isBlankSql } from '../sources/cell.ts'
import { toWholeSource } from '../sources/earlier-values.ts'
import { keyMatchesSql } from '../sources/key.ts'
import { filterCastableKeys } from '../sources/page.ts'
import { quoteList, quoteLiteral } from '../sources/db.ts'
import type { Source } from '../sources/source-model.ts'
import { listKnownKeys, type RowSelection } from '../store/deleted-rows.ts'
import { makeRowsDue } from '../store/rows.ts'
import { inTransaction, withTableTimeouts, type Tx } from '../store/transaction.ts'
import type { TableDeps } from './deps.ts'

/*
 * A row is emptied if all cells that Fillrate wrote for its inputs are blank again. A person may have emptied it, and then it stays
 * blank; a reload of its table has not, and then it is filled from its stored records, as any row that is due.
 */

/** With fewer rows that Fillrate has written, nothing is taken for a reload; nor if less than this share of them is emptied. */
const RELOADED_ROWS = 100
const RELOADED_SHARE = 0.5
/** A source of which less is emptied so far is read no further. */
const SUSPECT_SHARE = 0.25

/** Keys compared with their table in one transaction: an index probe each. */
const PAGE_KEYS = 2_000

interface EmptiedRow {
  readonly key: string
  readonly lookup: number | null
  /** Each of its lookups is stored and not due: to fill it again costs no call. */
  readonly isStored: boolean
}

/** Those of some rows that are emptied, and whose write was not undone. */
export async function listEmptied(tx: Tx, source: Source, keys: readonly string[]): Promise<EmptiedRow[]> {
  const { outputs } = toWholeSource(source)
  const castable = await filterCastableKeys(tx, source, keys)
  if (castable.length === 0 || outputs.length === 0) return []
  const columns = quoteList(outputs.map(({ column }) => column))
  const isBlank = outputs.map(
    (output) => `(not r.last_written ? ${quoteLiteral(output.column)} or ${isBlankSql(output)})`,
  )
  const lookups = sql`array_remove(r.missed_lookup_ids || r.lookup_id, null)`
  const undone = sql`
    select from fillrate.changes c
      join fillrate.changes u
        on u.id = c.undone_by_change_id
       and u.source = c.source
       and u.key = c.key
     where c.source = r.source
       and c.key = r.key
       and c.input_hash = r.input_hash
       and u.undone_by_change_id is null`
  const { rows } = await sql<EmptiedRow>`
    select r.key, r.lookup_id as lookup, coalesce((
             select count(l.id) = cardinality(${lookups})
                    and bool_or(l.state = 'found')
               from fillrate.lookups l
              where l.id = any(${lookups})
                and (l.refresh_at is null or l.refresh_at > now())
           ), false) as "isStored"
      from unnest(${[...castable]}::text[]) as k (key)
     cross join lateral (
       select * from fillrate.rows
        where source = ${source.name} and key = k.key offset 0
     ) r
     cross join lateral (
       select from ${sql.raw(source.table.sql)} as t
        where ${sql.raw(keyMatchesSql(source, 'k.key'))}
          and ${sql.raw(isBlank.join(' and '))}
       offset 0
     ) t
     where r.deleted_at is null
       and r.state in (${Row.enriched}, ${Row.unchanged})
       and r.last_written ?| ${sql.raw(columns)}
       and not coalesce(r.notes ? ${UNDONE_NOTE}, false)
       and not exists (${undone} offset 0)`.execute(tx)
  return rows
}

/** Makes those of some rows due that are emptied, and that no person has emptied. @returns how many */
export async function refillEmptied(tx: Tx, source: Source, keys: readonly string[]): Promise<number> {
  const stored = (await listEmptied(tx, source, keys)).filter(({ isStored }) => isStored)
  await makeRowsDue(tx, source.name, stored)
  return stored.length
}

/**
 * Makes the emptied rows of a source due if its table was loaded again with the same keys: most of what Fillrate has written is blank.
 * @throws TableBusyError if another transaction has locked the table
 */
export async function refillReloaded(deps: TableDeps, source: Source, signal: AbortSignal): Promise<void> {
  const total = { written: 0, emptied: 0 }
  // Ends with the first pages of a table that was not reloaded: to read it to its end would cost more than the pass.
  const isSuspect = (): boolean => total.emptied >= SUSPECT_SHARE * total.written
  const each = (act: Parameters<typeof forEachPage>[4]): Promise<number> =>
    forEachPage(deps, source, 'written', signal, act, isSuspect)
  await each(async (tx, keys) => {
    total.written += keys.length
    total.emptied += (await listEmptied(tx, source, keys)).length
    return 0
  })
  if (total.written < RELOADED_ROWS || total.emptied < RELOADED_SHARE * total.written) return
  await each((tx, keys) => refillEmptied(tx, source, keys))
}

/**
 * Goes through rows of a source as Fillrate knows them, a page a transaction, with the timeouts of its table.
 * @param goesOn whether another page is read
 * @returns the sum of what `act` did
 */
export async function forEachPage(
  { db, policy: { sourceTimeoutMs } }: TableDeps,
  source: Source,
  which: RowSelection,
  signal: AbortSignal,
  act: (tx: Tx, keys: readonly string[]) => Promise<number>,
  goesOn: () => boolean = () => true,
): Promise<number> {
  let done = 0
  let after: string | null = null
  for (let isOver = false; !isOver && !signal.aborted && goesOn();) {
    const page: { after: string | null; limit: number } = { after, limit: PAGE_KEYS }
    const read = await inTransaction(db, async (tx) => {
      const keys = await listKnownKeys(tx, source.name, which, page)
      const onTable = (): Promise<number> => act(tx, keys)
      return { keys, done: keys.length === 0 ? 0 : await withTableTimeouts(tx, sourceTimeoutMs, onTable) }
    })
    done += read.done
    after = read.keys.at(-1) ?? null
    isOver = read.keys.length < PAGE_KEYS
  }
  return done
}
