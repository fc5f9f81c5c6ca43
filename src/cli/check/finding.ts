import { ConfigProblems, type Problem } from '../../config/problems.ts'
import { SourceProblems } from '../../sources/problems.ts'
import { explainDatabaseError } from '../views/database-error.ts'

/** What one look found: in order; to be known but no obstacle; wrong; or not looked at, because of something wrong. */
export type FindingVerdict = 'ok' | 'warning' | 'error' | 'skipped'

export interface Finding {
  /** What was looked at: `database`, `source contacts`. */
  readonly name: string
  readonly verdict: FindingVerdict
  /** In one line. */
  readonly text: string
  /** What to do, where it is not in the problems. */
  readonly todo: string | null
  readonly problems: readonly Problem[]
}

export function createFinding(
  name: string,
  verdict: FindingVerdict,
  text: string,
  more: { readonly todo?: string | null; readonly problems?: readonly Problem[] } = {},
): Finding {
  return { name, verdict, text, todo: more.todo ?? null, problems: more.problems ?? [] }
}

export const createFailedFinding = (name: string, problems: readonly Problem[]): Finding =>
  createFinding(name, 'error', problems.length === 1 ? '1 problem' : `${problems.length} problems`, {
    problems,
  })

/** An error as a finding, where it is one that somebody can put right; any other is thrown on. */
export function toFinding(name: string, error: unknown, env: NodeJS.ProcessEnv): Finding {
  if (error instanceof ConfigProblems) return createFailedFinding(name, error.problems)
  if (error instanceof SourceProblems) return createFailedFinding(name, error.problems)
  const problem = explainDatabaseError(error, env['DATABASE_URL'])
  if (problem !== null) return createFailedFinding(name, [problem])
  throw error
}

/** What is asked over the network has to answer within this, in milliseconds. */
export const CHECK_TIMEOUT_MS = 5_000

const WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'nothing listens there (ECONNREFUSED)',
  ENOTFOUND: 'there is no such host (ENOTFOUND)',
  EAI_AGAIN: 'the host could not be looked up (EAI_AGAIN)',
  UND_ERR_CONNECT_TIMEOUT: 'it does not answer',
  ECONNRESET: 'it closed the connection (ECONNRESET)',
  UND_ERR_SOCKET: 'it closed the connection',
}

/** Why there was no answer, in words. */
export function describeNetworkError(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { code } = error as { code?: string }
  if (error.name === 'TimeoutError' || code === 'UND_ERR_HEADERS_TIMEOUT')
    return `no answer within ${CHECK_TIMEOUT_MS / 1_000} s`
  return WORDS[code ?? ''] ?? code ?? error.message
}
