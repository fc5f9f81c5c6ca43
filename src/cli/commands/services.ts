import { SOURCES_ARGUMENT, createParser, defineCommand } from '../command.ts'
import { ExpectedError } from '../options.ts'
import { readConfig, useDatabase } from '../settings.ts'
import { readEnvironment } from '../../config/environment.ts'
import { parseDay } from '../../util/format.ts'
import { renderServices } from '../views/services.ts'

export const servicesCommand = defineCommand(
  createParser('services')
    .summary('shows what each service found, filled and cost, and what another order would have come to')
    .description(
      'What each service answered and found, the cells that it filled and those that only it filled, and what a cell ' +
        'costs; and, from stored answers alone, what each order of the services would have requested, filled and cost. Calls ' +
        'nothing. Reads all lookups, rows and changes: seconds for 100,000 rows.',
    )
    .argument(...SOURCES_ARGUMENT)
    .option('--order <A,B,…>', 'play this order only, beside the configured one', parseOrder, null)
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
      ['fillrate services contacts --order pdl,acme', 'what it would have come to with pdl first'],
      ['fillrate services --since 30d --json', ''],
    ],

    async handler(call) {
      const { flags, stdout } = call
      const config = await readConfig(call)
      const { readServiceReport, REPORT_TIMEOUT_MS } = await import('../../actions/service-report.ts')
      const { configuredAddress } = await import('../../pipeline/deps.ts')
      const report = await readServiceReport(
        await useDatabase(call),
        { config, address: configuredAddress(config, readEnvironment(call.env)) },
        { sources: call.args[0], since: flags.since, order: flags.order, timeoutMs: REPORT_TIMEOUT_MS },
      )
      return { json: report, text: () => renderServices(report, stdout) }
    },
  },
)

function parseOrder(text: string): string[] {
  const names = text.split(',').map((name) => name.trim())
  if (names.includes('') || new Set(names).size < names.length)
    throw new ExpectedError('names of services, each once, separated by commas')
  return names
}

function parseSince(text: string): Date {
  const day = parseDay(text, Date.now())
  if (day === null) throw new ExpectedError('a day such as 2026-11-01, or how long ago, such as 30d')
  return day
}
