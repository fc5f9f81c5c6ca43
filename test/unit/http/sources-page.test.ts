import { expect, test } from 'vitest'
import { sourcesCard } from '../../../src/http/dashboard/pages/source.ts'
import { ROW_STATES } from '../../../src/domain/row.ts'
import type { DashboardData, SourceOverview } from '../../../src/actions/dashboard-data.ts'
import { EMPTY_METRICS } from '../../support/empty-metrics.ts'

const { data } = EMPTY_METRICS
const show = (shown: DashboardData) => sourcesCard(shown, data, [])
const toText = (html: object): string => String(html).replaceAll(/\s+/g, ' ')

const createOverview = (n: number, changes: Partial<SourceOverview> = {}): SourceOverview => ({
  name: `s${String(n).padStart(2, '0')}`,
  kind: 'person',
  table: 'crm.people',
  columns: ['title'],
  pause: null,
  states: { ...NO_ROWS, enriched: 5 },
  fillRate: null,
  lastRun: null,
  ...changes,
})
const NO_ROWS = Object.fromEntries(ROW_STATES.map((state) => [state, 0])) as SourceOverview['states']
test('a column that was mapped since the last count does not change the share of a source', () => {
  const count = (at: number, filled: Readonly<Record<string, number>>) => ({
    source: 's01',
    at: new Date(at),
    eligible: 10,
    filled,
    took_ms: 1,
  })
  const read = (columns: string[], fillRate: SourceOverview['fillRate']): string =>
    toText(show({ ...data, sources: [createOverview(1, { columns, fillRate })] })).replaceAll(
      /<[^>]+>|\s+/g,
      ' ',
    )
  for (const columns of [['title'], ['title', 'phone']])
    expect(read(columns, count(1, { title: 4 }))).toContain('40.0%')
  expect(read(['title', 'phone'], count(2, { title: 6, phone: 0 }))).toContain('30.0%')
})
