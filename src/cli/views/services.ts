import type { ServiceReport, ServiceReportEntry } from '../../actions/service-report.ts'
import type { WhatIf } from '../../actions/service-what-if.ts'
import type { Range } from '../../domain/service-order.ts'
import { billedUnits } from '../../domain/spend.ts'
import { formatCount, formatMoney, formatPercent, pluralize } from '../../util/format.ts'
import type { Output } from '../terminal.ts'
import { renderSection, renderText } from './layout.ts'
import { renderTable } from './table.ts'

/** What each service earns: a table, its cells by column, and what other orders would have come to. */
export function renderServices(report: ServiceReport, output: Output): string[] {
  const { services, since, unassigned, what_if: whatIf } = report
  const hasAnswers = services.some((one) => one.answered + one.calls > 0)
  if (!hasAnswers) return ['No service has answered yet.']
  const from = since === null ? 'since the start' : `since ${since.toISOString().slice(0, 10)}`
  return [
    `${output.paint('heading', pluralize(services.length, 'service'))}  ${output.paint('quiet', from)}`,
    '',
    ...renderTable(output, services, SERVICE_COLUMNS),
    ...describeOnly(services).flatMap((text) => ['', ...renderText(output, text, 'quiet')]),
    ...(unassigned === null ? [] : ['', ...renderText(output, describeUnassigned(unassigned), 'quiet')]),
    ...renderSection(output, 'Cells filled by column', renderColumns(services, output)),
    ...whatIf.flatMap((one) => renderWhatIf(one, output)),
  ]
}

/** What others know of cells that only one has filled is known where they have answered. */
function describeOnly(services: readonly ServiceReportEntry[]): string[] {
  const open = services.filter((one) => one.only_cells_compared < one.only_cells)
  if (services.length < 2 || open.length === 0) return []
  const counts = open.map(
    (one) => `${formatCount(one.only_cells_compared)} of ${formatCount(one.only_cells)} of ${one.service}`,
  )
  return [
    `Only it: no other service has a record with a value. All services have answered about ${counts.join(', ')}; the others may know the rest.`,
  ]
}

const describeUnassigned = (amount: NonNullable<ServiceReport['unassigned']>): string => {
  const { count, noun } = billedUnits(amount)
  return `${pluralize(count, noun)} more were requested by runs that are deleted since, of whichever service.`
}

/** What is estimated, and what has bounds only: the sentences and `--json` have both. */
const short = ({ low, high, likely }: Range, format = formatCount): string =>
  format(low) === format(high)
    ? format(low)
    : likely === null
      ? `${format(low)} to ${format(high)}`
      : `~${format(likely)}`

const number = (n: number | null): string => (n === null ? '' : formatCount(n))

type Columns<Line> = Parameters<typeof renderTable<Line>>[2]

const SERVICE_COLUMNS: Columns<ServiceReportEntry> = [
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
  { title: 'only it', text: ({ only_cells: only }) => formatCount(only), number: true },
  { title: 'cost', text: ({ cost }) => (cost === null ? '' : formatMoney(cost)), number: true },
  {
    title: 'a cell',
    text: ({ cost_per_cell: cost, credits_per_cell: credits }) =>
      cost === null ? number(credits) : formatMoney(cost),
    number: true,
  },
]

const renderColumns = (services: readonly ServiceReportEntry[], output: Output): string[] =>
  renderTable(
    output,
    services.flatMap(({ service, columns }) => columns.map((one) => ({ service, ...one }))),
    [
      { title: 'service', text: ({ service }) => service, minColumns: 8 },
      { title: 'source', text: ({ source }) => source, minColumns: 6, ifDifferent: true },
      { title: 'column', text: ({ column }) => column, minColumns: 8 },
      { title: 'cells', text: ({ cells }) => formatCount(cells), number: true },
      { title: 'only it', text: ({ only_cells: only }) => formatCount(only), number: true },
    ],
  )

function renderWhatIf({ source, answer, orders, currency }: WhatIf, output: Output): string[] {
  const lines = answer.flatMap((sentence) => renderText(output, sentence))
  if (orders.length < 2) return renderSection(output, `${source}: the order of the services`, lines)
  const costOf = (cost: WhatIf['orders'][number]['cost']): string =>
    cost === null || currency === null ? '' : short(cost, (amount) => formatMoney({ amount, currency }))
  const steps = orders.flatMap((order) =>
    order.steps.map((step, n) => ({ ...step, order: n === 0 ? describeOrder(order) : '' })),
  )
  return [
    ...renderSection(output, `${source}: the order of the services`, lines),
    '',
    ...renderTable(
      output,
      orders,
      [
        { title: 'order', text: describeOrder, minColumns: 12 },
        { title: 'rows found', text: (one) => short(one.rows_found), number: true, minColumns: 8 },
        { title: 'cells', text: (one) => short(one.cells), number: true, minColumns: 8 },
        { title: 'cost', text: (one) => costOf(one.cost), number: true, minColumns: 8 },
      ],
      { indent: 2 },
    ),
    // Of all orders it would be a page.
    ...(orders.length > 2
      ? []
      : [
          '',
          ...renderTable(
            output,
            steps,
            [
              { title: 'order', text: ({ order }) => order, minColumns: 12 },
              { title: 'service', text: ({ service }) => service, minColumns: 8 },
              { title: 'requested', text: ({ requested }) => short(requested), number: true, minColumns: 6 },
              { title: 'found', text: ({ found }) => short(found), number: true, minColumns: 6 },
              { title: 'cells', text: ({ cells }) => short(cells), number: true, minColumns: 6 },
              { title: 'cost', text: ({ cost }) => costOf(cost), number: true, minColumns: 8 },
            ],
            { indent: 2 },
          ),
        ]),
  ]
}

const describeOrder = ({ services, is_configured: isConfigured }: WhatIf['orders'][number]): string =>
  `${services.join(', ')}${isConfigured ? ' (now)' : ''}`
