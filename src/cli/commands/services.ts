import { SOURCES_ARGUMENT, createParser, defineCommand } from '../command.ts'
import { ExpectedError } from '../options.ts'
import { readConfig, useDatabase } from '../settings.ts'
import { readEnvironment } from '../../config/environment.ts'
import { parseDay, formatCount, formatMoney, formatPercent, pluralize } from '../../util/format.ts'
import type { LastService, ServiceReport, ServiceReportEntry } from '../../actions/service-report.ts'
import { billedUnits } from '../../domain/spend.ts'
import type { Output } from '../terminal.ts'
import { renderText } from '../views/layout.ts'
import { renderTable } from '../views/table.ts'

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

/** What each service earns, and what the last one of each source adds. */
function renderServices(report: ServiceReport, output: Output): string[] {
  const { services, since, last } = report
  const hasAnswers = services.some((one) => one.answered + one.calls > 0)
  if (!hasAnswers) return ['No service has answered yet.']
  const from = since === null ? 'since the start' : `since ${since.toISOString().slice(0, 10)}`
  return [
    `${output.paint('heading', pluralize(services.length, 'service'))}  ${output.paint('quiet', from)}`,
    '',
    ...renderTable(output, services, SERVICE_COLUMNS),
    ...(last.length === 0 ? [] : ['', ...last.flatMap((one) => renderText(output, describeLast(one)))]),
  ]
}

const describeLast = ({ source, service, cells, cost }: LastService): string =>
  `${source}: ${service}, the last service, filled ${pluralize(cells, 'cell')}${cost === null ? '' : ` for ${formatMoney(cost)}`}.`

const number = (n: number | null): string => (n === null ? '' : formatCount(n))

const SERVICE_COLUMNS: Parameters<typeof renderTable<ServiceReportEntry>>[2] = [
  { title: 'service', text: ({ service }) => service, minColumns: 8 },
  { title: 'answered', text: ({ answered }) => formatCount(answered), number: true },
  { title: 'found', text: ({ found }) => formatCount(found), number: true },
  {
    title: '',
    text: ({ hit_rate: rate }) => (rate === null ? '' : formatPercent(rate)),
    number: true,
    dropOrder: 2,
  },
  { title: 'billed', text: (one) => formatCount(billedUnits(one).count), number: true, dropOrder: 1 },
  { title: 'cells', text: ({ cells }) => formatCount(cells), number: true },
  { title: 'cost', text: ({ cost }) => (cost === null ? '' : formatMoney(cost)), number: true },
  {
    title: 'a cell',
    text: ({ cost_per_cell: cost, credits_per_cell: credits }) =>
      cost === null ? number(credits) : formatMoney(cost),
    number: true,
  },
]
