import type { ReportedFinding } from '../../domain/report/check.ts'
import { ConfigProblems, describeUnset, type Problem } from '../../config/problems.ts'
import { SourceProblems, showFound, type Grant, type MissingPolicy } from '../../sources/problems.ts'
import { pluralize } from '../../util/text.ts'
import { explainDatabaseError } from '../views/database-error.ts'

/** The result of one check. */
export interface Finding extends Omit<ReportedFinding, 'problems'> {
  readonly problems: readonly CheckedProblem[]
}

/** A finding, marked with the name of its service if it has one. */
export const ofService = (name: string | null, finding: Finding): Finding =>
  name === null ? finding : { ...finding, service: name }

/** A problem of a finding. One that a grant solves is shown with all others of its kind, at the end. */
export type CheckedProblem = Problem & { readonly grant?: Grant | MissingPolicy }

export function createFinding(
  name: string,
  verdict: Finding['verdict'],
  text: string,
  more: { readonly todo?: string | null; readonly problems?: readonly CheckedProblem[] } = {},
): Finding {
  return { name, verdict, text, todo: more.todo ?? null, problems: more.problems ?? [] }
}

export function createFailedFinding(name: string, ...problems: readonly CheckedProblem[]): Finding {
  const others = problems.filter(({ grant }) => grant === undefined).length
  const parts = [
    ...(others > 0 ? [pluralize(others, 'problem')] : []),
    ...(problems.length > others ? ['missing privileges, listed below'] : []),
  ]
  return createFinding(name, 'error', parts.join(', '), { problems })
}

/** A variable that is required is not set. */
export const createUnsetFinding = (name: string, variable: string, expected: string): Finding =>
  createFailedFinding(name, describeUnset(variable, expected))

/** Converts an error that the user can fix into a finding; throws any other. */
export function toFinding(name: string, error: unknown, env: NodeJS.ProcessEnv): Finding {
  if (error instanceof ConfigProblems) return createFailedFinding(name, ...error.problems)
  if (error instanceof SourceProblems)
    return createFailedFinding(
      name,
      ...error.problems.map((problem) => ({ ...problem, found: showFound(problem) })),
    )
  const problem = explainDatabaseError(error, env['DATABASE_URL'])
  if (problem !== null) return createFailedFinding(name, problem)
  throw error
}
