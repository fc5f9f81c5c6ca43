import { maskServerText, type DatabaseError } from '../../util/error-text.ts'
import type { Table } from '../catalogue.ts'
import { type Db, tryRows } from '../db.ts'
import { renderExpression, withCaret } from '../expression.ts'
import { isCodedError } from '../pg-errors.ts'
import type { ProblemList } from '../problems.ts'
import { describeUnsearched } from './search-path.ts'

/** One expression of a mapping, and the statement that checks it in the database. */
export interface ExpressionProbe {
  readonly place: string
  readonly text: string
  readonly before: string
  readonly after: string
  readonly references?: Readonly<Record<string, string>>
}

type ServerError = DatabaseError & { readonly hint?: string }

/** The database's error for a probe. */
export interface ProbeFailure {
  readonly probe: ExpressionProbe
  readonly error: ServerError
  /** Index in the configured text. */
  readonly index: number | null
}

/** Checks one expression in the database, and returns the rows of the statement if it is valid. */
export async function probeExpression(
  db: Db,
  probe: ExpressionProbe,
): Promise<ProbeFailure | { readonly rows: readonly unknown[] }> {
  const rendered = renderExpression(probe.text, probe.references)
  const statement = probe.before + rendered.sql + probe.after
  const tried = await tryRows(db, statement)
  if ('rows' in tried) return tried
  const error = tried.error as ServerError
  if (!isCodedError(error)) throw error
  const index = error.position === undefined ? -1 : characters(statement, Number(error.position) - 1)
  const inside = index - probe.before.length
  const isInside = inside >= 0 && inside < rendered.sql.length
  return { probe, error, index: isInside ? rendered.origin(inside) : null }
}

/** Postgres counts characters, JavaScript UTF-16 units. */
const characters = (text: string, count: number): number => [...text].slice(0, count).join('').length

/** Reports the error, with a caret where the database found it. Throws errors that do not concern the expression. */
export function addProbeError(
  { probe, error, index }: ProbeFailure,
  table: Table,
  report: ProblemList,
): void {
  if (/^(?:08|53|57|58|XX)/.test(error.code)) throw error
  // Known already, with the grant.
  if (error.code === '42501' && report.lacksPrivileges) return
  const shown = index === null ? probe.text : withCaret(probe.text, index)
  const found = [shown, maskServerText(error)].filter((line) => line !== '').join('\n')
  report.add(probe.place, found, 'SQL over t and the joins that Postgres accepts', describeFix(table, error))
}

/** What to do about an error of Postgres: what it says itself, or where the name is that it has not found. Pure. */
export const describeFix = (
  table: Table,
  error: ServerError,
  otherwise = 'Correct the expression.',
): string =>
  describeUnsearched(table, error) ??
  error.hint ??
  (error.code === '42501' ? 'Let the role in DATABASE_URL do what the message names.' : otherwise)
