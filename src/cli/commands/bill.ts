import type { Bill } from '../../actions/bill.ts'
import { ConfigProblems } from '../../config/problems.ts'
import { billedUnits, type SpendAmount } from '../../domain/spend.ts'
import type { SpendFilter } from '../../store/spend.ts'
import {
  type Answer,
  type CliCallOf,
  Exit,
  type ExitCode,
  SOURCES_ARGUMENT,
  createParser,
  defineCommand,
} from '../command.ts'
import { csvOption, openCsvFile } from '../csv-file.ts'
import { ExpectedError } from '../options.ts'
import { readConfigOrProblems, useDatabase } from '../settings.ts'
import type { Output } from '../terminal.ts'
import { formatCount, formatMoney, parseDay, pluralize } from '../../util/format.ts'
import { SOURCE_COLUMN, renderTable } from '../views/table.ts'

const billParser = createParser('bill')
  .summary('shows what each source was billed, on which days')
  .description(
    'What the service bills for each source: counted with each answer, by the day (UTC) on which it came. A lookup that several ' +
      'sources share is billed to the one that requested it. Sources that left the configuration are in it.',
  )
  .argument(...SOURCES_ARGUMENT)
  .option(
    '--since <DAY>',
    'from midnight UTC of a day: 2026-11-01, or 30d for a month ago; default: since the start',
    parseFirstDay,
    null,
  )
  .option(
    '--until <DAY>',
    'up to midnight UTC at which this day begins; default: until now',
    parseLastDay,
    null,
  )
  .addOption(
    csvOption(
      'write a line for each day, source and endpoint as CSV: day, source, endpoint, calls, retried, throttled, lookups, in_doubt, credits, with several services service',
    ),
  )

export const billCommand = defineCommand(billParser, {
  group: 'inspect',
  examples: [
    ['fillrate bill --since 2026-11-01', ''],
    ["fillrate bill 'acme_*' --until 2026-11-01", 'of the sources of a tenant'],
    ['fillrate bill --since 30d --csv bill.csv', ''],
  ],

  async handler(call) {
    const { flags, stdout } = call
    const { chooseBilledSources, readBill } = await import('../../actions/bill.ts')
    const config = await readConfigOrProblems(call)
    const prices = config instanceof ConfigProblems ? null : config
    const db = await useDatabase(call)
    const configured = prices === null ? [] : Object.keys(prices.sources)
    const sources = await chooseBilledSources(db, call.args[0], configured)
    const filter = { sources, since: flags.since, until: flags.until }
    if (flags.csv !== null) return writeCsv(db, filter, flags.csv, call)
    const report = await readBill(db, filter, prices)
    return { json: report, text: () => renderBill(report, stdout) }
  },
})

async function writeCsv(
  db: Awaited<ReturnType<typeof useDatabase>>,
  filter: SpendFilter,
  target: string,
  call: CliCallOf<typeof billParser>,
): Promise<Answer | ExitCode> {
  const { toSpendCsv } = await import('../../actions/bill.ts')
  const { listDaySpendOf } = await import('../../store/spend.ts')
  const { columns, lines } = await toSpendCsv(db, await listDaySpendOf(db, filter))
  const file = await openCsvFile(target, columns, call)
  await file.write(lines).finally(() => file.close())
  if (call.flags.json && !file.isStdout) return { json: { csv: target, lines: lines.length }, text: () => [] }
  call.stderr.line(`Wrote ${pluralize(lines.length, 'line')}${file.isStdout ? '' : ` to ${target}`}.`)
  return Exit.done
}

function renderBill({ since, until, total, sources }: Bill, output: Output): string[] {
  const day = (date: Date): string => date.toISOString().slice(0, 10)
  const period = `${since === null ? 'since the start' : `since ${day(since)}`}${until === null ? '' : `, before ${day(until)}`}`
  if (sources.length === 0) return [`Nothing was requested ${period}.`]
  const { count, noun } = billedUnits(total)
  const cost = total.cost === null ? '' : ` = ${formatMoney(total.cost)}`
  return [
    `${output.paint('heading', `${pluralize(count, noun)}${cost}`)}  ${output.paint('quiet', period)}`,
    '',
    ...renderTable(output, sources, SPEND_COLUMNS),
  ]
}

type SourceAmount = SpendAmount & { readonly source: string }

const SPEND_COLUMNS: Parameters<typeof renderTable<SourceAmount>>[2] = [
  SOURCE_COLUMN,
  { title: 'calls', text: ({ calls }) => formatCount(calls), number: true },
  { title: 'billed', text: (one) => formatCount(billedUnits(one).count), number: true },
  { title: 'in doubt', text: (one) => formatCount(billedUnits(one).inDoubt), number: true },
  { title: 'cost', text: ({ cost }) => (cost === null ? '' : formatMoney(cost)), number: true },
]

function parseFirstDay(text: string): Date {
  const day = parseDay(text, Date.now())
  if (day === null) throw new ExpectedError('a day such as 2026-11-01, or how long ago, such as 30d')
  return day
}

/** Also a day to come. */
function parseLastDay(text: string): Date {
  const day = parseDay(text, /^\d{4}-/.test(text) ? Number.MAX_SAFE_INTEGER : Date.now())
  if (day === null) throw new ExpectedError('a day such as 2026-12-01, or how long ago, such as 30d')
  return day
}
