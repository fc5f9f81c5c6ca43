import { ConfigProblems, type Problem } from '../../config/problems.ts'
import { SourceProblems } from '../../sources/problems.ts'
import { databaseProblem } from '../render/database-error.ts'

/** What one look found: in order; to be known but no obstacle; wrong; or not looked at, because of something wrong. */
export type Verdict = 'ok' | 'warning' | 'error' | 'skipped'

export interface Finding {
  /** What was looked at: `database`, `source contacts`. */
  readonly name: string
  readonly verdict: Verdict
  /** In one line. */
  readonly text: string
  /** What to do, where it is not in the problems. */
  readonly todo: string | null
  readonly problems: readonly Problem[]
}

export function finding(
  name: string,
  verdict: Verdict,
  text: string,
  more: { readonly todo?: string | null; readonly problems?: readonly Problem[] } = {},
): Finding {
  return { name, verdict, text, todo: more.todo ?? null, problems: more.problems ?? [] }
}

export const wrongBecause = (name: string, problems: readonly Problem[]): Finding =>
  finding(name, 'error', problems.length === 1 ? '1 problem' : `${problems.length} problems`, { problems })

/** An error as a finding, where it is one that somebody can put right; any other is thrown on. */
export function findingOf(name: string, error: unknown, env: NodeJS.ProcessEnv): Finding {
  if (error instanceof ConfigProblems) return wrongBecause(name, error.problems)
  if (error instanceof SourceProblems) return wrongBecause(name, error.problems)
  const problem = databaseProblem(error, env['DATABASE_URL'])
  if (problem !== null) return wrongBecause(name, [problem])
  throw error
}
