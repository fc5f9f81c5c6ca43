import type { LastService, ServiceReport, ServiceReportEntry } from '../../actions/service-report.ts'
import { billedUnits } from '../../domain/spend.ts'
import { formatCount, formatMoney, formatPercent, pluralize } from '../../util/format.ts'
import type { Output } from '../terminal.ts'
import { renderText } from './layout.ts'
import { renderTable } from './table.ts'

/** What each service earns, and what the last one of each source adds. */
export function renderServices(report: ServiceReport, output: Output): string[] {
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
