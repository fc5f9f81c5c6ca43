import { SOURCES_ARGUMENT, createParser, defineCommand } from '../command.ts'
import { ExpectedError } from '../options.ts'
import { readConfig, useDatabase } from '../settings.ts'
import { readEnvironment } from '../../config/environment.ts'
import { parseDay } from '../../util/format.ts'
import { renderServices } from '../views/services.ts'

export const servicesCommand = defineCommand(
  createParser('services')
    .summary('shows what each service found, filled and cost')
    .description(
      'What each service answered and found, the cells that it filled, and what a cell costs. Calls nothing. Reads all ' +
        'lookups and changes: seconds for 100,000 rows.',
    )
    .argument(...SOURCES_ARGUMENT)
    .option(
      '--since <DAY>',
      'what was answered, written and spent since midnight UTC of a day: 2026-11-01, or 30d for a month ago; default: since the start',
      parseSince,
      null,
    ),
  {
    group: 'inspect',
    examples: [
      ['fillrate services', ''],
      ['fillrate services contacts --since 30d --json', ''],
    ],

    async handler(call) {
      const { flags, stdout } = call
      const config = await readConfig(call)
      const { readServiceReport, REPORT_TIMEOUT_MS } = await import('../../actions/service-report.ts')
      const report = await readServiceReport(
        await useDatabase(call),
        { config, environment: readEnvironment(call.env) },
        { sources: call.args[0], since: flags.since, timeoutMs: REPORT_TIMEOUT_MS },
      )
      return { json: report, text: () => renderServices(report, stdout) }
    },
  },
)

function parseSince(text: string): Date {
  const day = parseDay(text, Date.now())
  if (day === null) throw new ExpectedError('a day such as 2026-11-01, or how long ago, such as 30d')
  return day
}
