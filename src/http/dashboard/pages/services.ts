import type { Actions } from '../../../actions/actions.ts'
import {
  ReportTooLarge,
  type ServiceReport,
  type ServiceReportEntry,
} from '../../../actions/service-report.ts'
import type { WhatIf } from '../../../actions/service-what-if.ts'
import type { Range } from '../../../domain/service-order.ts'
import { billedUnits } from '../../../domain/spend.ts'
import { type Cached, cached } from '../../../util/cached.ts'
import { formatCount, formatMoney, formatPercent, parseDay, pluralize } from '../../../util/format.ts'
import {
  card,
  count,
  type DataColumn,
  dataTable,
  empty,
  nameText,
  pageHead,
  ratio,
  selectField,
  shareBar,
} from '../components.ts'
import type { DashboardDeps } from '../dashboard-app.ts'
import { buildUrl, html, type Html, type HtmlPart } from '../html.ts'
import { type Page, type PageRequest, refused } from '../page.ts'

/** What each service found, filled and cost, and what another order of them would have come to. */
export const servicesPage: Page = {
  path: '/services',
  name: 'Services',
  show: async ({ query }, deps) => {
    const { app } = deps
    const chosen = toChoice(query)
    const report = await readReport(deps, chosen)
    if (report === null)
      return { body: html`${pageHead('Services')} ${empty('No configuration is loaded.')}` }
    const { source, since, order } = chosen
    const download = html`<a class="button" href="${buildUrl('/services.csv', { source, since })}" download
      >Download CSV</a
    >`
    return {
      body: html`${pageHead('Services', download)}
      ${choiceForm(chosen, report, [...(app()?.mappings.keys() ?? [])])} ${servicesSection(report)}
      ${columnsSection(report)} ${report.what_if.map((one) => orderSection(one, order))}`,
    }
  },
  csv: {
    path: '/services.csv',
    columns: 'service,source,column,answered,found,billed,cost,currency,cells,only_cells'.split(','),
    open: async ({ query }, deps) => ({
      name: 'services.csv',
      lines: [((await readReport(deps, toChoice(query)))?.services ?? []).flatMap(toCsvLines)],
    }),
  },
}

interface Choice {
  readonly source: string | null
  readonly since: string | null
  /** Names of services, separated by commas. */
  readonly order: string | null
}

const toChoice = (query: PageRequest['query']): Choice => ({
  source: query.get('source') || null,
  since: query.get('since') || null,
  order: query.get('order') || null,
})

/** A total of each service, and a line for each column. */
const toCsvLines = (one: ServiceReportEntry): (string | null)[][] => [
  [
    one.service,
    null,
    null,
    ...[one.answered, one.found, billedUnits(one).count].map(String),
    one.cost && String(one.cost.amount),
    one.cost && one.cost.currency,
    String(one.cells),
    String(one.only_cells),
  ],
  ...one.columns.map(({ source, column, cells, only_cells: only }) => [
    one.service,
    source,
    column,
    ...Array.from({ length: 5 }, () => null),
    String(cells),
    String(only),
  ]),
]

/** A page is waited for; the command has more time. */
const PAGE_TIMEOUT_MS = 60_000
const MAX_CACHED = 20

/** It reads everything: once for all who look at it at about the same time. */
const reports = new WeakMap<Actions, Map<string, Cached<ServiceReport>>>()

/** Null: no configuration is loaded. */
async function readReport(
  { app }: DashboardDeps,
  { source, since, order }: Choice,
): Promise<ServiceReport | null> {
  const actions = app()
  if (actions === null) return null
  const from = since === null ? null : parseDay(since, Date.now())
  const read = (names: readonly string[] | null): Promise<ServiceReport> => {
    const known = reports.get(actions) ?? new Map<string, Cached<ServiceReport>>()
    reports.set(actions, known)
    const key = JSON.stringify([source, from, names])
    if (known.size >= MAX_CACHED && !known.has(key)) known.clear()
    const options = {
      sources: source === null ? [] : [source],
      since: from,
      order: names,
      timeoutMs: PAGE_TIMEOUT_MS,
    }
    const get = known.get(key) ?? cached(() => actions.serviceReport(options))
    known.set(key, get)
    return get()
  }
  try {
    const report = await read(null)
    const isPlayed =
      order === null || report.what_if.some(({ orders }) => orders.some((one) => nameOrder(one) === order))
    return isPlayed ? report : await read(order.split(','))
  } catch (error) {
    if (!(error instanceof ReportTooLarge)) throw error
    throw refused(
      503,
      'Too much to read',
      html`<p>The report was not read within a minute: ${error.message}.</p>
        <p><code>fillrate services</code> takes the time that it needs.</p>`,
    )
  }
}

const nameOrder = ({ services }: WhatIf['orders'][number]): string => services.join()

function choiceForm(
  { source, since, order }: Choice,
  { what_if: whatIf }: ServiceReport,
  sources: readonly string[],
): Html {
  const orders = [...new Set(whatIf.flatMap((one) => one.orders.map(nameOrder)))]
  const spans = [['', 'the start'], ...SPANS] as const
  return html`<form class="filters card" action="/services" aria-label="Filter">
    ${selectField('source', 'Source', source, [['', 'all'], ...sources.map((name) => [name, name] as const)])}
    ${selectField('since', 'Since', since, spans)}
    ${orders.length > 1 && selectField('order', 'What if', order, [['', 'as it is'], ...orders.map((one) => [one, one.split(',').join(', then ')] as const)])}
    <div class="form-actions"><button>Show</button> <a href="/services">Clear</a></div>
  </form>`
}

const SPANS = [
  ['7d', '7 days ago'],
  ['30d', '30 days ago'],
  ['90d', '90 days ago'],
] as const

const servicesSection = ({ services, unassigned }: ServiceReport): Html =>
  card('by-service', 'By service', [
    dataTable<ServiceReportEntry>(
      'What each service found, filled and cost',
      [
        { name: 'service', kind: 'row', cell: ({ service }) => nameText(service) },
        { name: 'answered', kind: 'number', cell: ({ answered }) => formatCount(answered) },
        { name: 'found', kind: 'number', cell: ({ found }) => formatCount(found) },
        {
          name: 'hit rate',
          kind: 'number',
          cell: ({ hit_rate: rate }) => rate !== null && formatPercent(rate),
        },
        { name: 'billed', kind: 'number', cell: (one) => formatCount(billedUnits(one).count) },
        { name: 'cells', kind: 'number', cell: ({ cells }) => formatCount(cells) },
        { name: 'only it', kind: 'number', cell: onlyCell },
        services.some(({ cost }) => cost !== null) && {
          name: 'cost',
          kind: 'number',
          cell: ({ cost }) => cost && formatMoney(cost),
        },
        {
          name: 'a cell',
          kind: 'number',
          cell: ({ cost_per_cell: cost, credits_per_cell: credits }) =>
            cost === null ? count(credits) : formatMoney(cost),
        },
      ],
      services.some((one) => one.answered + one.calls > 0) ? services : [],
      { none: 'No service has answered yet.' },
    ),
    services.length > 1 &&
      html`<p class="soft">
        Only it: no other service has a record with a value for the cell. In brackets, how many of them are in
        rows that all services have answered: of the rest, what the others know is not known.
      </p>`,
    unassigned !== null &&
      html`<p class="soft">
        ${pluralize(billedUnits(unassigned).count, billedUnits(unassigned).noun)} more were requested by runs
        that are deleted since, of whichever service.
      </p>`,
  ])

const onlyCell = ({ only_cells: only, only_cells_compared: compared }: ServiceReportEntry): HtmlPart => [
  formatCount(only),
  compared < only && html` <span class="soft">(${formatCount(compared)})</span>`,
]

type ColumnLine = ServiceReportEntry['columns'][number] & { readonly service: string }

function columnsSection({ services, sources }: ServiceReport): HtmlPart {
  const lines = services
    .flatMap(({ service, columns }) => columns.map((one): ColumnLine => ({ service, ...one })))
    .toSorted(
      (a, b) => a.source.localeCompare(b.source) || a.column.localeCompare(b.column) || b.cells - a.cells,
    )
  const most = Math.max(1, ...lines.map(({ cells }) => cells))
  return (
    lines.length > 0 &&
    card(
      'by-column',
      'Cells by column',
      dataTable<ColumnLine>(
        'Cells by column and service',
        [
          { name: 'column', kind: 'row', cell: ({ column }) => nameText(column) },
          sources.length > 1 && { name: 'source', cell: ({ source }) => nameText(source) },
          { name: 'service', cell: ({ service }) => nameText(service) },
          {
            name: 'share',
            kind: 'wide',
            cell: ({ cells, only_cells: only }) =>
              shareBar([
                { share: ratio(only, most), look: 'good' },
                { share: ratio(cells - only, most), look: 'flow' },
              ]),
          },
          { name: 'cells', kind: 'number', cell: ({ cells }) => formatCount(cells) },
          { name: 'only it', kind: 'number', cell: ({ only_cells: only }) => formatCount(only) },
        ],
        lines,
      ),
      html`<span class="soft">green: only it</span>`,
    )
  )
}

type Order = WhatIf['orders'][number]

/** @param chosen the order whose steps are shown; null: the configured one */
function orderSection({ source, answer, orders, currency }: WhatIf, chosen: string | null): Html {
  const shown = orders.find((one) => nameOrder(one) === chosen) ?? orders[0]
  const cost = (range: Range | null): HtmlPart =>
    range !== null && currency !== null && rangeCell(range, (amount) => formatMoney({ amount, currency }))
  return card(
    `order-${source}`,
    ['Order of services: ', nameText(source)],
    [
      answer.map((sentence) => html`<p>${sentence}</p>`),
      orders.length > 1 &&
        dataTable<Order>(
          'What each order would have come to',
          [
            {
              name: 'order',
              kind: 'row',
              cell: (one) => [
                one.services.join(', '),
                one.is_configured && html` <span class="soft">as it is</span>`,
              ],
            },
            { name: 'rows found', kind: 'number', cell: (one) => rangeCell(one.rows_found) },
            { name: 'cells', kind: 'number', cell: (one) => rangeCell(one.cells) },
            currency !== null && { name: 'cost', kind: 'number', cell: (one) => cost(one.cost) },
            { name: 'rows estimated', kind: 'number', cell: (one) => formatCount(one.rows_estimated) },
          ],
          orders,
        ),
      shown !== undefined &&
        dataTable<Order['steps'][number]>(
          shown.is_configured
            ? 'The order as it is, step by step'
            : `What if: ${shown.services.join(', then ')}`,
          [
            { name: 'service', kind: 'row', cell: ({ service }) => nameText(service) },
            ...(['requested', 'found', 'cells'] as const).map((name): DataColumn<Order['steps'][number]> => ({
              name,
              kind: 'number',
              cell: (step) => rangeCell(step[name]),
            })),
            currency !== null && { name: 'cost', kind: 'number', cell: (step) => cost(step.cost) },
          ],
          shown.steps,
          { isCaptionShown: true },
        ),
    ],
  )
}

/** A number; what is estimated has its bounds beside it, and what cannot be estimated only them. */
function rangeCell({ low, high, likely }: Range, format = formatCount): HtmlPart {
  if (format(low) === format(high)) return format(low)
  const bounds = `${format(low)} to ${format(high)}`
  return likely === null ? bounds : html`about ${format(likely)} <span class="soft">${bounds}</span>`
}
