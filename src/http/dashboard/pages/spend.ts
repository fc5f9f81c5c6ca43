import type { DashboardData } from '../../../actions/dashboard-data.ts'
import type { BudgetReport, SpendReport } from '../../../actions/spend.ts'
import { billedUnits, type SpendAmount } from '../../../domain/spend.ts'
import { SPEND_COLUMNS, toSpendCsv } from '../../../actions/bill.ts'
import { listDaySpend } from '../../../store/spend.ts'
import { formatCount, formatMoney, pluralize } from '../../../util/format.ts'
import {
  badge,
  card,
  count,
  type DataColumn,
  dataTable,
  pageHead,
  ratio,
  shareBar,
  stateBadge,
  tile,
  tiles,
  timeAgo,
  nameText,
  sourcesCell,
} from '../components.ts'
import { html, sourceUrl, type Html, type HtmlPart } from '../html.ts'
import type { Page } from '../page.ts'

type SpendPageData = Pick<DashboardData, 'spend' | 'readAt'>

/** What was requested and what it costs, by day, source and run; what is left of each budget. */
export const spendPage: Page = {
  path: '/spend',
  name: 'Spend',
  isLive: true,
  show: async (_, { readData }) => {
    const data = await readData()
    const { spend } = data
    const download = html`<a class="button" href="/spend.csv" download>Download CSV</a>`
    return {
      body: html`${pageHead('Spend', download)}
      ${amountTiles(spend)}${budgetsSection(data)}${daysSection(spend)}${sourcesSection(spend)}${runsSection(data)}`,
    }
  },
  csv: {
    path: '/spend.csv',
    columns: SPEND_COLUMNS,
    open: async (_, { db }) => {
      const { columns, lines } = await toSpendCsv(db, await listDaySpend(db, CSV_DAYS))
      return { name: 'spend.csv', moreColumns: columns.slice(SPEND_COLUMNS.length), lines: [lines] }
    },
  },
}

/** Days of its file: a year, and the month of the year before. */
const CSV_DAYS = 396

/** Lookups, and what they cost if there is a price. */
const amountText = (amount: Pick<SpendAmount, 'lookups' | 'credits' | 'cost'>): string =>
  amount.cost === null ? formatCount(billedUnits(amount).count) : formatMoney(amount.cost)

const unitsText = (amount: Pick<SpendAmount, 'lookups' | 'credits' | 'cost'>): string => {
  const { count, noun } = billedUnits(amount)
  return amount.cost === null ? `${noun}s` : pluralize(count, noun)
}

function amountTiles({ today, last_30_days: month, forecast }: SpendReport): Html {
  const amountTile = (
    name: string,
    amount: Pick<SpendAmount, 'lookups' | 'credits' | 'cost'>,
    more: string,
  ) => tile(name, amountText(amount), `${unitsText(amount)}${more}`)
  const doubt = (amount: SpendAmount): string => {
    const { inDoubt } = billedUnits(amount)
    return inDoubt === 0 ? '' : `, ${formatCount(inDoubt)} more in doubt`
  }
  return tiles('amounts', 'Amounts', [
    amountTile('Today', today, doubt(today)),
    amountTile('Foreseen today', forecast.today, ' by midnight UTC'),
    amountTile('Last 30 days', month, doubt(month)),
    amountTile('Foreseen in 30 days', forecast.next_30_days, ' at the pace of the last week'),
  ])
}

const BUDGET_NAMES: Readonly<Record<BudgetReport['kind'], string>> = {
  run: 'Run',
  schedule: 'Scheduled run',
  live_sync: 'Live sync, today',
  import: 'Imports, today',
}

function budgetsSection({ spend: { budgets }, readAt }: SpendPageData): Html {
  return card(
    'budgets',
    'Budgets',
    dataTable<BudgetReport>(
      'Budgets and what is left of them',
      [
        {
          name: 'budget',
          kind: 'row',
          cell: ({ kind, run, source }) => [
            BUDGET_NAMES[kind],
            run !== null && html` <a href="/runs/${run}">${run}</a>`,
            source !== null && html` <span class="soft">of ${source}</span>`,
          ],
        },
        {
          name: 'used',
          kind: 'wide',
          cell: ({ spent, limit }) =>
            limit === null
              ? html`<span class="soft">unlimited</span>`
              : shareBar([{ share: ratio(spent, limit), look: spent >= limit ? 'bad' : 'flow' }]),
        },
        { name: 'spent', kind: 'number', cell: ({ spent }) => formatCount(spent) },
        { name: 'limit', kind: 'number', cell: ({ limit }) => count(limit) },
        {
          name: 'left',
          kind: 'number',
          cell: ({ left }) => (left === 0 ? badge('used up', 'bad') : count(left)),
        },
        { name: 'used up', cell: ({ used_up_at: at }) => at && timeAgo(at, readAt) },
      ],
      budgets,
      { none: html`No budget is in use now: neither a run nor live sync is under way.` },
    ),
  )
}

const costColumn = <Line extends SpendAmount>(isPriced: boolean): DataColumn<Line> | false =>
  isPriced && { name: 'cost', kind: 'number', cell: ({ cost }) => cost && formatMoney(cost) }

const amountColumns = <Line extends SpendAmount>({
  today,
  last_30_days: month,
}: SpendReport): (DataColumn<Line> | false)[] => [
  { name: 'lookups', kind: 'number', cell: ({ lookups }) => formatCount(lookups) },
  month.credits !== undefined && {
    name: 'credits',
    kind: 'number',
    cell: (line) => formatCount(billedUnits(line).count),
  },
  {
    name: 'in doubt',
    kind: 'number',
    cell: (line) => (billedUnits(line).inDoubt === 0 ? null : formatCount(billedUnits(line).inDoubt)),
  },
  { name: 'calls', kind: 'number', cell: ({ calls }) => formatCount(calls) },
  costColumn<Line>(today.cost !== null),
]

type SpendDay = SpendReport['days'][number]

/** One line a day, newest first; days without spend are left out. */
function daysSection(spend: SpendReport): Html {
  const most = Math.max(1, ...spend.days.map((one) => billedUnits(one).count))
  const days = spend.days.filter((one) => one.calls > 0 || one.lookups > 0).toReversed()
  return card(
    'days',
    'By day',
    dataTable<SpendDay>(
      'Spend by day, in UTC, newest first',
      [
        { name: 'day', kind: 'row', cell: ({ day }) => day },
        {
          name: 'share',
          kind: 'wide',
          cell: (line) => shareBar([{ share: billedUnits(line).count / most, look: 'flow' }]),
        },
        ...amountColumns<SpendDay>(spend),
        { name: 'most of it', cell: ({ by_source: sources }) => topSource(sources) },
      ],
      days,
      { none: 'Nothing was requested in the last 30 days.' },
    ),
    html`<span class="soft">days in UTC</span>`,
  )
}

const topSource = (sources: Readonly<Record<string, number>>): HtmlPart => {
  const [top] = Object.entries(sources).toSorted(([, a], [, b]) => b - a)
  return top === undefined ? null : nameText(top[0])
}

const sourcesSection = (spend: SpendReport): Html =>
  card(
    'by-source',
    'By source, 30 days',
    dataTable<SpendReport['sources'][number]>(
      'Spend by source, the most first',
      [
        {
          name: 'source',
          kind: 'row',
          cell: ({ source }) => html`<a href="${sourceUrl(source)}">${nameText(source)}</a>`,
        },
        ...amountColumns<SpendReport['sources'][number]>(spend),
      ],
      spend.sources,
      { none: 'Nothing was requested.' },
    ),
  )

const runsSection = ({ spend, readAt }: SpendPageData): Html =>
  card(
    'by-run',
    'By run',
    dataTable<SpendReport['runs'][number]>(
      'Spend by run, newest first',
      [
        {
          name: 'run',
          kind: 'row',
          cell: ({ run }) => html`<span class="phone">Run </span><a href="/runs/${run}">${run}</a>`,
        },
        { name: 'state', cell: ({ outcome }) => stateBadge(outcome) },
        { name: 'started by', cell: ({ trigger }) => trigger },
        { name: 'sources', cell: ({ sources }) => sourcesCell(sources) },
        { name: 'started', cell: ({ started_at: at }) => timeAgo(at, readAt) },
        ...amountColumns<SpendReport['runs'][number]>(spend),
      ],
      spend.runs,
      { none: 'No run has requested anything yet.' },
    ),
  )
