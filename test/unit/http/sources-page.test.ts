import { expect, test } from 'vitest'
import { sourcesSection, sourcesSummary } from '../../../src/http/dashboard/pages/sources.ts'
import { ROW_STATES } from '../../../src/domain/row.ts'
import type { SourceOverview } from '../../../src/actions/dashboard-data.ts'
import { EMPTY_METRICS } from '../../support/empty-metrics.ts'

const { data } = EMPTY_METRICS
const toText = (html: object): string => String(html).replaceAll(/\s+/g, ' ')

test('sources that left the configuration stand apart, on one folded line with what to do', () => {
  const retired = ['a', 'b', 'c', 'd'].map((source) => ({
    source,
    rows: 7,
    waiting: 0,
    failed: 0,
    deleted: 1,
  }))
  const text = toText(sourcesSection({ ...data, retired }, [], null))
  expect(text).toContain('<summary>Retired: a, b and 2 more</summary>')
  expect(text).toContain('d (8 rows)')
  expect(text).toContain('<code>fillrate follow remove NAME</code>')
  expect(toText(sourcesSection(data, [], null))).not.toContain('Retired')
})

const createOverview = (n: number, changes: Partial<SourceOverview> = {}): SourceOverview => ({
  name: `s${String(n).padStart(2, '0')}`,
  kind: 'person',
  table: 'crm.people',
  columns: ['title'],
  pause: null,
  breakage: null,
  states: { ...NO_ROWS, enriched: 5 },
  fillRates: [],
  deleted: [],
  backfill: null,
  lastRun: null,
  ...changes,
})
const NO_ROWS = Object.fromEntries(ROW_STATES.map((state) => [state, 0])) as SourceOverview['states']
const listLinks = (text: string): string[] => [...text.matchAll(/>(s\d\d)</g)].map(([, name = '']) => name)

test('of twenty sources, those that are stopped, wait or failed come first, and the others are folded', () => {
  const sources = Array.from({ length: 20 }, (_, n) => createOverview(n + 1))
  sources[18] = createOverview(19, {
    pause: { source: 's19', paused_at: new Date(0), paused_by: 'ben', reason: null, resume_at: null },
  })
  sources[16] = createOverview(17, { states: { ...NO_ROWS, waiting: 3 } })
  sources[15] = createOverview(16, { states: { ...NO_ROWS, failed: 2 } })
  const text = toText(sourcesSummary({ ...data, sources }, []))
  const [before = '', after = ''] = text.split('<details id="more-sources">')
  expect(listLinks(before)).toEqual(['s19', 's17', 's16', 's01', 's02'])
  expect(listLinks(after)).toHaveLength(15)
  expect(after).toContain('15 more: 0 rows waiting, 0 not enriched')
  const few = toText(sourcesSummary({ ...data, sources: sources.slice(-8) }, []))
  expect(listLinks(few)).toEqual(['s13', 's14', 's15', 's16', 's17', 's18', 's19', 's20'])
  expect(few).not.toContain('<details')
})

test('a column that was mapped since the last count changes neither the share of a source nor its trend', () => {
  const count = (at: number, filled: Readonly<Record<string, number>>) => ({
    source: 's01',
    at: new Date(at),
    eligible: 10,
    filled,
    took_ms: 1,
    table_node: null,
  })
  const fillRates = [count(0, { title: 2 }), count(1, { title: 4 }), count(2, { title: 6, phone: 0 })]
  const read = (columns: string[], counts: number): string =>
    toText(
      sourcesSection(
        { ...data, sources: [createOverview(1, { columns, fillRates: fillRates.slice(0, counts) })] },
        [],
        null,
      ),
    ).replaceAll(/<[^>]+>|\s+/g, ' ')
  for (const columns of [['title'], ['title', 'phone']]) expect(read(columns, 2)).toMatch(/40\.0% +\+20\.0/)
  expect(read(['title', 'phone'], 3)).toMatch(/30\.0% +\+40\.0/)
})
