import { ConfigProblems, type Problem, formatProblems } from '../../config/problems.ts'
import { describeError } from '../../util/error-text.ts'
import { maskPasswords } from '../../util/text.ts'
import { LeaseLostError } from '../../domain/run.ts'
import { ServiceError } from '../../service/errors.ts'
import { SourceProblems, mergeGrantProblems, showFound } from '../../sources/problems.ts'
import { Exit, type ExitCode, UsageError } from '../command.ts'
import { createSecretMask } from '../secret-mask.ts'
import { createSchemaProblem, databaseAddress, explainDatabaseError, explainLimit } from './database-error.ts'
import type { Paint } from '../terminal.ts'

export interface RenderedError {
  readonly exit: ExitCode
  /** For standard error. */
  readonly text: string
  /** For standard output with `--json`. */
  readonly json: {
    readonly error: {
      readonly kind: string
      readonly message: string
      /** Empty unless the user can fix what is wrong. */
      readonly problems: readonly Problem[]
    }
  }
}

export interface ErrorViewOptions {
  readonly env: NodeJS.ProcessEnv
  readonly paint: Paint
  /** The width of running text. Default: 100. */
  readonly columns?: number
  /** Whether an unexpected error includes its stack. */
  readonly stack: boolean
  /** The command was interrupted. */
  readonly interrupted: boolean
}

/**
 * Renders an error and chooses the exit code, for all commands. An error that the user can fix says how; any other shows
 * its message, and its stack only at log level debug or trace.
 */
export function renderError(error: unknown, view: ErrorViewOptions): RenderedError {
  const mask = createSecretMask(view.env)
  const { paint } = view
  const shown = (
    exit: ExitCode,
    kind: string,
    message: string,
    more = '',
    problems: readonly Problem[] = [],
  ): RenderedError => ({
    exit,
    text: `${paint('bad', 'fillrate:')} ${mask(message + more)}\n`,
    json: {
      error: {
        kind,
        message: mask(message),
        problems: problems.map((one) => masked(one, mask)),
      },
    },
  })

  if (error instanceof UsageError) {
    const suggestion = error.suggestion === null ? '' : ` ${error.suggestion}`
    const more = `\n\n  ${paint('heading', 'Usage')}  ${error.usage}\n  ${paint('heading', 'Help')}   ${paint('type', error.help)}`
    const problem = {
      place: 'the command line',
      found: error.message,
      expected: error.usage,
      todo: error.suggestion ?? `\`${error.help}\` shows more.`,
    }
    return shown(Exit.usage, 'usage', `${sentence(error.message)}${suggestion}`, more, [problem])
  }
  if (view.interrupted && isAbort(error)) return shown(Exit.interrupted, 'interrupted', 'interrupted')
  if (error instanceof ConfigProblems)
    return shown(
      Exit.usage,
      'configuration',
      heading(error.problems, error.where),
      details(error.problems, view.columns),
      error.problems,
    )
  if (error instanceof SourceProblems) {
    const problems = mergeGrantProblems(error.problems).map((one) => ({
      ...one,
      place: `sources.${one.source}.${one.place}`,
      found: showFound(one),
    }))
    const where = 'the mapping of the database'
    return shown(Exit.usage, 'sources', heading(problems, where), details(problems, view.columns), problems)
  }
  if (error instanceof Error && error.name === 'SchemaMissingError') {
    const problem = createSchemaProblem(databaseAddress(view.env['DATABASE_URL']))
    return shown(Exit.usage, 'schema', heading([problem], 'the database'), details([problem], view.columns), [
      problem,
    ])
  }
  if (error instanceof Error && error.name === 'PreReleaseSchemaError')
    return shown(Exit.usage, 'schema', sentence(error.message))
  if (error instanceof Error && error.name === 'MigrationBlockedError')
    return shown(Exit.failed, 'schema', sentence(error.message))
  if (error instanceof Error && error.name === 'ForgetUnfinishedError')
    return shown(Exit.failed, 'forget_unfinished', sentence(error.message))
  if (error instanceof LeaseLostError) return shown(Exit.failed, 'lease_lost', sentence(error.message))
  if (error instanceof ServiceError) {
    const exit = error.action === 'abort_run' ? Exit.usage : Exit.failed
    return shown(exit, 'service', sentence(error.message), `\n  ${describeFix(error)}`)
  }

  const problem = explainDatabaseError(error, view.env['DATABASE_URL'])
  if (problem !== null)
    return shown(
      Exit.usage,
      'database',
      heading([problem], 'the database'),
      details([problem], view.columns),
      [problem],
    )

  const limit = explainLimit(error, view.env['DATABASE_URL'])
  if (limit !== null)
    return shown(Exit.failed, 'database', heading([limit], 'the database'), details([limit], view.columns), [
      limit,
    ])

  // Of a command that is run by a schedule, what is written here is a log: values at level debug only.
  const message = maskPasswords(
    error instanceof Error
      ? `${error.name}: ${view.stack ? error.message : describeError(error)}`
      : 'unknown error',
  )
  const where = view.stack
    ? `\n${maskPasswords(stackOf(error))}`
    : '\n  Use --log-level debug for details. Saved state is kept.'
  return shown(Exit.failed, 'unexpected', `unexpected ${message}`, where)
}

const heading = (problems: readonly Problem[], where: string): string =>
  `${problems.length === 1 ? '1 problem' : `${problems.length} problems`} in ${where}:`

const details = (problems: readonly Problem[], columns?: number): string =>
  `\n\n${formatProblems(problems, columns)}`

const masked = (one: Problem, mask: (text: string) => string): Problem => ({
  place: mask(one.place),
  found: mask(one.found),
  expected: mask(one.expected),
  todo: one.todo === null ? null : mask(one.todo),
})

const sentence = (message: string): string => (/[.!?…]$/.test(message) ? message : `${message}.`)

function describeFix(error: ServiceError): string {
  switch (error.action) {
    case 'abort_run':
    case 'rotate_key':
      return error.status === 401 || error.status === 403
        ? 'Check FILLRATE_API_KEY and FILLRATE_AUTH. Nothing was lost; run again to continue.'
        : 'Check FILLRATE_BASE_URL, then run again: it continues where it stopped.'
    case 'reject':
      return 'The service rejected the request; contact the provider.'
    case 'retry':
    case 'release':
      return 'Run again later: it continues where it stopped.'
  }
}

const isAbort = (error: unknown): boolean =>
  error instanceof Error && (error.name === 'AbortError' || (error as { code?: string }).code === 'ABORT_ERR')

/** The stack with its causes, without other properties: those of a database error can contain values of a row. */
function stackOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const cause = error.cause === undefined ? '' : `\n  caused by ${stackOf(error.cause)}`
  return `${error.stack ?? error.message}${cause}`
}
