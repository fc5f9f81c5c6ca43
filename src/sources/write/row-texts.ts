import type { Transaction } from 'kysely'
import type { SkippedCell } from '../../domain/skipped-cell.ts'
import { maskWords } from '../../util/text.ts'
import { query } from '../db.ts'
import { keyMatchesSql } from '../key.ts'
import { quoteName } from '../quote.ts'
import type { Source } from '../source-model.ts'

interface ReportedResult {
  readonly key: string
  readonly reason: string | null
  readonly skipped: readonly Omit<SkippedCell, 'value'>[]
}

/** Longer texts are no names, addresses or numbers. */
const MAX_TEXT_LENGTH = 200

/**
 * Removes the row's own texts from the errors of a user's trigger or function, which may quote any of its columns: they are
 * personal, and each row would have a reason of its own. Reads the rows only if there is such an error.
 */
export async function maskRowTexts<Schema, Result extends ReportedResult>(
  tx: Transaction<Schema>,
  source: Source,
  results: readonly Result[],
): Promise<Result[]> {
  const keys = results.filter(hasRaisedText).map(({ key }) => key)
  if (keys.length === 0) return [...results]
  const columns = await listColumns(tx, source)
  const rows = await query<{ key: string; texts: string[] }>(
    tx,
    // As text and not as jsonb, which has no NUL: a json column may.
    `select k.key, array(
              select "~text" from unnest(array[${columns.map((name) => `t.${quoteName(name)}::text`).join(', ')}]) as x ("~text")
               where char_length("~text") between 3 and ${MAX_TEXT_LENGTH}) as texts
       from unnest($1::text[]) as k (key)
       join ${source.table.sql} as t on ${keyMatchesSql(source, 'k.key')}`,
    [keys],
  )
  const textsByKey = new Map(rows.map(({ key, texts }) => [key, texts]))
  return results.map((result) => {
    const texts = textsByKey.get(result.key)
    if (texts === undefined) return result
    const mask = (text: string | null): string | null => (text === null ? null : maskWords(text, texts))
    return {
      ...result,
      reason: mask(result.reason),
      skipped: result.skipped.map((cell) => ({ ...cell, detail: mask(cell.detail) })),
    }
  })
}

/** The columns that this role may read, as the table is now. */
async function listColumns<Schema>(tx: Transaction<Schema>, { table }: Source): Promise<string[]> {
  const rows = await query<{ name: string }>(
    tx,
    `select attname as name from pg_attribute
      where attrelid = $1::regclass and attnum > 0 and not attisdropped
        and has_column_privilege(attrelid, attnum, 'select')`,
    [table.sql],
  )
  return rows.map(({ name }) => name)
}

const hasRaisedText = ({ reason, skipped }: ReportedResult): boolean =>
  RAISED.test(reason ?? '') || skipped.some(({ detail }) => RAISED.test(detail ?? ''))

/** As `describeRowError` words what a function raised: by RAISE, by ASSERT, or with a code of the user's own. */
const RAISED = /^raised by |\([A-Z\d]{5}\)$/
