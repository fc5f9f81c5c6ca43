import { maskServerText, type DatabaseError } from '../../util/error-text.ts'
import { type Db, tryQuery } from '../db.ts'
import { renderExpression, withCaret } from '../expression.ts'
import { isCodedError } from '../pg-errors.ts'
import type { ProblemList } from '../problems.ts'
import { describeUnsearched } from './search-path.ts'

/** One expression of a mapping, and the statement that checks it in the database. */
export interface ExpressionProbe {
  readonly place: string
  readonly text: string
  readonly expected: string
  readonly before: string
  readonly after: string
  readonly references?: Readonly<Record<string, string>>
}

/** The database's error for a probe. */
export interface ProbeFailure {
  readonly probe: ExpressionProbe
  readonly error: DatabaseError & { readonly hint?: string; readonly position?: string }
  /** Index in the configured text. */
  readonly index: number | null
  /** Why a name may not be found. */
  readonly unsearched: string | null
}

/** Checks one expression in the database. Returns null if it is valid. */
export async function probeExpression(db: Db, probe: ExpressionProbe): Promise<ProbeFailure | null> {
  const rendered = renderExpression(probe.text, probe.references)
  const statement = probe.before + rendered.sql + probe.after
  const error = (await tryQuery(db, statement)) as ProbeFailure['error'] | null
  if (error === null) return null
  if (!isCodedError(error)) throw error
  const index = error.position === undefined ? -1 : characters(statement, Number(error.position) - 1)
  const inside = index - probe.before.length
  const isInside = inside >= 0 && inside < rendered.sql.length
  const unsearched = await describeUnsearched(db, error)
  return { probe, error, unsearched, index: isInside ? rendered.origin(inside) : null }
}

/** Postgres counts characters, JavaScript UTF-16 units. */
const characters = (text: string, count: number): number => [...text].slice(0, count).join('').length

/** Reports the error, with a caret where the database found it. Throws errors that do not concern the expression. */
export function addProbeError({ probe, error, index, unsearched }: ProbeFailure, report: ProblemList): void {
  if (/^(?:08|53|57|58|XX)/.test(error.code)) throw error
  // Known already, with the grant.
  if (error.code === '42501' && report.lacksPrivileges) return
  const shown = index === null ? probe.text : withCaret(probe.text, index)
  const found = [shown, maskServerText(error)].filter((line) => line !== '').join('\n')
  report.add(probe.place, found, probe.expected, unsearched ?? describeFix(error))
}

function describeFix(error: ProbeFailure['error']): string {
  const { code, hint } = error
  if (code === '42501') return `Grant what is missing to the role in DATABASE_URL (${maskServerText(error)}).`
  if (hint) return hint
  if (code === '42P01') return 'Check the table’s name and schema.'
  if (code === '42703')
    return 'Check the column’s name. One in mixed case needs double quotes: t."firstName".'
  return 'Correct the expression.'
}
