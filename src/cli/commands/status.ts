import { ConfigProblems } from '../../config/problems.ts'
import type { StatusReport } from '../../actions/status.ts'
import type { SourceMapping } from '../../domain/mapping.ts'
import {
  type Context,
  DATABASE_VARIABLES,
  Exit,
  type Invocation,
  createParser,
  defineCommand,
} from '../command.ts'
import { withDatabase } from '../settings.ts'
import { writeJson } from '../terminal.ts'
import { renderStatus } from '../views/status.ts'

export const statusCommand = defineCommand(
  createParser('status')
    .summary('shows rows by state, fill rate by column, jobs and the rate limit')
    .description(
      'Every row ever picked is in exactly one state, and the states add up. The fill rate is the share of rows ' +
        'whose column holds a value, as the last run counted it.',
    ),
  {
    group: 'inspect',
    examples: [
      ['fillrate status', ''],
      ['fillrate status --json | jq .fill_rate', ''],
    ],
    environment: DATABASE_VARIABLES,

    async handler(invocation, context) {
      const { stdout, stderr, now } = context
      const mappings = await readMappings(invocation, context)
      const { createStatusReport, readLastFillRates } = await import('../../actions/status.ts')
      const { listSourceNames } = await import('../../store/rows.ts')
      return withDatabase(context, async (db) => {
        const configured = mappings instanceof ConfigProblems ? [] : mappings
        const names = [...new Set([...configured.map((one) => one.name), ...(await listSourceNames(db))])]
        const fillRates: Record<string, StatusReport['fill_rate'][string]> = {}
        for (const { name, outputs } of configured)
          fillRates[name] = await readLastFillRates(
            db,
            name,
            outputs.map(({ column }) => column),
          )
        const report = await createStatusReport(db, names, fillRates)
        if (invocation.flags.json) {
          const problem = mappings instanceof ConfigProblems ? mappings.problems : null
          writeJson(stdout, { ...report, configuration_problems: problem })
          return Exit.done
        }
        stdout.lines(renderStatus(report, stdout, now()))
        if (mappings instanceof ConfigProblems)
          stderr.line(
            `${stderr.paint('warn', 'Fill rates are not shown:')} ${formatFirstProblem(mappings)} ${stderr.paint('type', 'fillrate check')} has the details.`,
          )
        return Exit.done
      })
    },
  },
)

/** Without a valid configuration, the status is shown without fill rates. */
async function readMappings(
  { flags }: Invocation,
  { cwd }: Context,
): Promise<SourceMapping[] | ConfigProblems> {
  const { loadConfig } = await import('../../config/load.ts')
  try {
    return Object.values(
      (await loadConfig({ cwd, ...(flags.config !== null && { path: flags.config }) })).sources,
    )
  } catch (error) {
    if (error instanceof ConfigProblems && flags.config === null) return error
    throw error
  }
}

const formatFirstProblem = ({ problems: [first] }: ConfigProblems): string =>
  first === undefined ? '' : `${first.place}: ${first.found.split('\n')[0]}.`
