import { loadConfig } from '../../config/load.ts'
import { ConfigProblems } from '../../config/problems.ts'
import { status as read } from '../../pipeline/status.ts'
import { coverage as countCoverage, type Coverage } from '../../sources/coverage.ts'
import { SourceProblems } from '../../sources/problems.ts'
import { openSource } from '../../sources/source.ts'
import type { SourceMapping } from '../../domain/mapping.ts'
import type { Database } from '../../store/open.ts'
import * as rateLimits from '../../store/rate-limits.ts'
import * as rateTold from '../../store/rate-told.ts'
import { sourceNames } from '../../store/source-names.ts'
import { inTransaction } from '../../store/transaction.ts'
import type { Command } from '../command.ts'
import type { Context } from '../context.ts'
import { withDatabase } from '../database.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { writeJson } from '../render/json.ts'
import { statusLines } from '../render/status.ts'

/** Counting a column reads the whole table; a big one is not worth waiting longer for. */
const COVERAGE_TIMEOUT_MS = 30_000
const QUERY_CANCELED = '57014'

export async function status(command: Command<'status'>, context: Context): Promise<ExitCode> {
  const { stdout, stderr, now } = context
  const mappings = await readMappings(command, context)
  return withDatabase(context, async (db) => {
    const configured = mappings instanceof ConfigProblems ? [] : mappings
    const names = [...new Set([...configured.map((one) => one.name), ...(await sourceNames(db))])]
    const { limit: _, ...state } = await read(db, names, null)
    const limits = await rateLimits.list(db)
    const told = await rateTold.heard(db)
    const coverage: Record<string, Coverage | string> = {}
    for (const mapping of configured) coverage[mapping.name] = await coverageOf(db, mapping)
    if (command.flags.json) {
      const problem = mappings instanceof ConfigProblems ? mappings.problems : null
      writeJson(stdout, {
        ...state,
        limits: limits.map((limit) => limitJson(limit, told.get(limit.scope))),
        coverage,
        configuration_problems: problem,
      })
      return Exit.done
    }
    for (const line of statusLines({ status: state, limits, told, coverage }, stdout, now()))
      stdout.line(line)
    if (mappings instanceof ConfigProblems)
      stderr.line(
        `${stderr.paint('warn', 'Coverage is not shown:')} ${firstLine(mappings)} ${stderr.paint('type', 'fillrate check')} tells more.`,
      )
    return Exit.done
  })
}

/** Without a configuration there is still much to tell. */
async function readMappings(
  { flags }: Command<'status'>,
  { cwd }: Context,
): Promise<SourceMapping[] | ConfigProblems> {
  try {
    return Object.values(
      (await loadConfig({ cwd, ...(flags.config !== null && { path: flags.config }) })).sources,
    )
  } catch (error) {
    if (error instanceof ConfigProblems && flags.config === null) return error
    throw error
  }
}

/** @returns a text where it can't be told */
async function coverageOf(db: Database, mapping: SourceMapping): Promise<Coverage | string> {
  try {
    const source = await openSource(db, mapping)
    return await inTransaction(db, (tx) => countCoverage(tx, source), COVERAGE_TIMEOUT_MS)
  } catch (error) {
    if (error instanceof SourceProblems)
      return 'not known: the mapping does not fit the database; see fillrate check'
    if ((error as { code?: string }).code === QUERY_CANCELED)
      return `not known: counting takes longer than ${COVERAGE_TIMEOUT_MS / 1_000} s`
    throw error
  }
}

const firstLine = ({ problems: [first] }: ConfigProblems): string =>
  first === undefined ? '' : `${first.place}: ${first.found.split('\n')[0]}.`

const limitJson = (
  limit: Awaited<ReturnType<typeof rateLimits.list>>[number],
  told: rateTold.Heard | undefined,
) => ({
  ...told,
  scope: limit.scope,
  limit: limit.limit,
  window_ms: limit.windowMs,
  observed_at: new Date(limit.observedAt),
})
