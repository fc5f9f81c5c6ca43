import { sql } from 'kysely'
import type { Db } from './db.ts'
import { MAPPING_INPUTS } from './inputs.ts'
import { keysQuery, pageQuery, type PageRow, type SourcePageOptions } from './page.ts'
import type { SourceProblem } from './problems.ts'
import type { Source } from './source-model.ts'

/** The rows that are read: 200, because one row in a hundred may be evaluated differently. */
export const FIRST_PAGE: SourcePageOptions = { after: null, limit: 200, where: null, changedSince: null }

/** Its hash is not read. */
export type InputRow = Omit<PageRow, 'input_hash'>

/**
 * Evaluates the inputs of the first rows, or of the given ones, once. Each call needs a transaction of its own: `now()`
 * is constant within one.
 */
export async function readInputs(
  db: Db,
  source: Source,
  of: readonly InputRow[] | null,
): Promise<readonly InputRow[]> {
  const page =
    of === null
      ? pageQuery(source, FIRST_PAGE)
      : keysQuery(
          source,
          of.map((row) => row.key),
        )
  return (await sql<InputRow>`${page}`.execute(db)).rows
}

/**
 * Finds volatile inputs (`now()`, `random()`), which change each time they are evaluated: their rows would be looked up
 * again in every run. Pure.
 * @param readings of the same rows. An input must differ between all of them: a single change may be a user's
 */
export function findVolatileInputs(
  source: Source,
  readings: readonly (readonly InputRow[])[],
): SourceProblem[] {
  const byKey = readings.map((rows) => new Map(rows.map((row) => [row.key, row])))
  const keys = [...(byKey[0]?.keys() ?? [])]
  const names = MAPPING_INPUTS.filter((name) =>
    keys.some((key) =>
      byKey.every((rows, at) => {
        const now = rows.get(key)
        return now !== undefined && (at === 0 || now[name] !== byKey[at - 1]?.get(key)?.[name])
      }),
    ),
  )
  return names.map((name) => ({
    source: source.name,
    place: `inputs.${name}`,
    found: `${source.mapping.inputs[name]}\nanother value each time that it is computed`,
    expected:
      'the same value as long as the row is the same: a row is looked up again when its inputs change',
    todo: 'Take now(), random() and the like out of the expression.',
  }))
}
