import { expect, test } from 'vitest'
import { sourcesSection } from '../../../src/http/dashboard/pages/sources.ts'
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
  expect(text).toContain('<code>fillrate source retire NAME</code>')
  expect(toText(sourcesSection(data, [], null))).not.toContain('Retired')
})
