import { attempt, type Db } from '../db.ts'
import { render, withCaret } from '../expression.ts'
import type { DatabaseError } from '../refused.ts'
import type { Report } from './report.ts'

/** One expression of a mapping, and the statement in which the database is asked about it. */
export interface Probe {
  readonly place: string
  readonly text: string
  readonly expected: string
  readonly before: string
  readonly after: string
  readonly references?: Readonly<Record<string, string>>
}

/** What the database said of a probe. */
export interface Failed {
  readonly probe: Probe
  readonly error: DatabaseError & { readonly hint?: string; readonly position?: string }
  /** Index in the configured text. */
  readonly at: number | null
}

/** Asks the database about one expression. Gives null when there is nothing to say. */
export async function probe(db: Db, probe: Probe): Promise<Failed | null> {
  const rendered = render(probe.text, probe.references)
  const statement = probe.before + rendered.sql + probe.after
  const error = await attempt(db, statement)
  if (error === null) return null
  if (!isDatabaseError(error)) throw error
  const index = error.position === undefined ? -1 : characters(statement, Number(error.position) - 1)
  const inside = index - probe.before.length
  const isInside = inside >= 0 && inside < rendered.sql.length
  return { probe, error, at: isInside ? rendered.origin(inside) : null }
}

/** Postgres counts characters, JavaScript UTF-16 units. */
const characters = (text: string, count: number): number => [...text].slice(0, count).join('').length

const isDatabaseError = (error: unknown): error is Failed['error'] =>
  error instanceof Error && 'code' in error && /^[\dA-Z]{5}$/.test(String(error.code))

/** Reports it, with a caret where the database saw the fault. What says nothing of the expression is thrown. */
export function addError({ probe, error, at }: Failed, report: Report): void {
  if (/^(?:08|53|57|58|XX)/.test(error.code)) throw error
  const shown = at === null ? probe.text : withCaret(probe.text, at)
  const found = [shown, error.message].filter((line) => line !== '').join('\n')
  report.add(probe.place, found, probe.expected, todo(error))
}

function todo({ code, hint, message }: Failed['error']): string {
  if (code === '42501') return `Grant what is missing to the role in DATABASE_URL (${message}).`
  if (hint) return hint
  if (code === '42P01') return 'Check the table’s name and schema.'
  if (code === '42703')
    return 'Check the column’s name. One in mixed case needs double quotes: t."firstName".'
  return 'Correct the expression.'
}
