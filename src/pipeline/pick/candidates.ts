import { sql } from 'kysely'
import { Row } from '../../domain/row.ts'
import { keysQuery, pageQuery, type PageRow } from '../../sources/page.ts'
import type { Source } from '../../sources/source.ts'
import type { StoreTransaction } from '../../store/transaction.ts'

/** A row of a source that may be picked. */
export interface Candidate extends PageRow {
  /** It waits in a run that is no more, or is to be picked again. */
  readonly left_behind: boolean
}

export interface Page {
  readonly candidates: Candidate[]
  /** Where the next page begins; null when this one was the last. */
  readonly next: string | null
  /** Rows of the source that the page held. */
  readonly scanned: number
}

/**
 * One keyset page of a source, without the rows that have nothing to fill or were settled with the same inputs and
 * are not due: they are left out in SQL, so that a pass over an enriched table moves no data.
 */
export async function readPage(
  tx: StoreTransaction,
  source: Source,
  options: {
    readonly after: string | null
    readonly size: number
    readonly where: string | null
    readonly changedSince: Date | null
    readonly live: readonly number[]
  },
): Promise<Page> {
  const page = pageQuery(source, {
    after: options.after,
    limit: options.size,
    where: options.where,
    changedSince: options.changedSince,
  })
  const { rows } = await sql<Candidate & { wanted: boolean; scanned: number }>`
    with page as materialized (${page}),
    judged as (
      select page.*, (select count(*) from page) as scanned,
             coalesce(r.state = ${sql.lit(Row.waiting)} and (r.run is null or r.run <> all(${[...options.live]}::bigint[])), false)
               as left_behind,
             coalesce(case
               when r.key is null then page.lacks
               when r.state = ${sql.lit(Row.waiting)} then r.run is null or r.run <> all(${[...options.live]}::bigint[])
               else page.lacks and (r.input_hash is distinct from page.input_hash or r.next_at <= now())
             end, false) as wanted
        from page left join fillrate.rows r on r.source = ${source.name} and r.key = page.key
    )
    select * from judged where wanted or n = scanned order by n`.execute(tx)
  const last = rows.at(-1)
  const scanned = last?.scanned ?? 0
  return {
    candidates: rows.filter((row) => row.wanted),
    next: last && scanned === options.size ? last.key : null,
    scanned,
  }
}

/** Rows of a source by their keys; those that are gone, or no longer in the source, are not among them. */
export async function readKeys(
  tx: StoreTransaction,
  source: Source,
  keys: readonly string[],
): Promise<Candidate[]> {
  if (keys.length === 0) return []
  const { rows } = await sql<PageRow>`${keysQuery(source, keys)}`.execute(tx)
  return rows.map((row) => ({ ...row, left_behind: true }))
}
