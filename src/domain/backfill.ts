import { formatCount } from '../util/format.ts'

const DAY_MS = 86_400_000

/** How far the runs of a source have come that stop at their budgets, night after night. */
export interface Backfill {
  /** Rows ever picked. */
  readonly picked: number
  /** Rows of the source, at the last count: at most these remain to be picked, because complete rows are among them. */
  readonly eligible: number
  /** Rows a day, over the last week; null: unknown, also on the first day. */
  readonly per_day: number | null
  /** When the last row is picked at this pace, at the latest; null: unknown. */
  readonly done_at: Date | null
}

/**
 * Foresees the end of a backfill. Pure.
 * @param week what the runs of the last seven days have picked, and when the first of them began
 * @returns null: nothing remains
 * @example
 * foreseeBackfill({ picked: 4_100, eligible: 60_000 }, { picked: 4_100, since: yesterday }, Date.now())
 */
export function foreseeBackfill(
  { picked, eligible }: Pick<Backfill, 'picked' | 'eligible'>,
  week: { readonly picked: number; readonly since: Date | null },
  now: number,
): Backfill | null {
  if (picked >= eligible) return null
  const days = week.since === null ? 0 : Math.ceil((now - week.since.getTime()) / DAY_MS)
  // One run is no pace.
  if (days < 2 || week.picked === 0) return { picked, eligible, per_day: null, done_at: null }
  const perDay = week.picked / days
  const left = (eligible - picked) / perDay
  const at = new Date(now + left * DAY_MS)
  return {
    picked,
    eligible,
    per_day: Math.round(perDay),
    done_at: Number.isNaN(at.getTime()) ? null : at,
  }
}

/** `4,100 of 60,000 rows picked, done by 2026-12-12 at this pace`. */
export function describeBackfill({ picked, eligible, done_at: doneAt }: Backfill): string {
  const end = doneAt === null ? '' : `, done by ${doneAt.toISOString().slice(0, 10)} at this pace`
  return `${formatCount(picked)} of ${formatCount(eligible)} rows picked${end}`
}

/**
 * The share of all cells that hold a value, over the columns that were counted; null: there are none.
 * @param filled rows with a value, by column; undefined: a column that was not counted
 */
export function filledShare(eligible: number, filled: readonly (number | undefined)[]): number | null {
  const counted = filled.filter((rows) => rows !== undefined)
  const cells = eligible * counted.length
  return cells === 0 ? null : counted.reduce((sum, rows) => sum + rows, 0) / cells
}
