import { expect, test } from 'vitest'
import type { ColumnState } from '../../../src/domain/report/explain.ts'
import { explainFields, type FieldSituation } from '../../../src/actions/explain/explain.ts'
import { SKIP_REASONS, type SkippedCell } from '../../../src/domain/skipped-cell.ts'
import type { Source } from '../../../src/sources/source-model.ts'
import type { ChangeHistory } from '../../../src/store/row-history.ts'
import { output } from '../../integration/sources/mapping.ts'

const source = {
  name: 'contacts',
  mapping: { minConfidence: 0.5 },
  outputs: [
    {
      column: 'title',
      fit: { kind: 'text', maxLength: 20 },
      mapping: output('title', 'title'),
    },
  ],
} as unknown as Source

const column: ColumnState = {
  column: 'title',
  value: null,
  blank: true,
  policy: 'blank',
  written_by_fillrate: false,
  written_by_source: null,
  written_by: null,
}
const typed: Partial<ColumnState> = { value: 'Typed', blank: false }
const ours: Partial<ColumnState> = {
  value: 'CTO',
  blank: false,
  written_by_fillrate: true,
  written_by: 4,
}
const change = {
  run: 4,
  after: { title: 'CTO' },
  undoes: null,
  undone_by: null,
  undone: [],
  lookup: 1,
  service: 0,
  written_at: new Date(2_000),
}
const undone = { ...change, undone_by: 5, undone: ['title'] }
const skip: SkippedCell = { column: 'title', reason: 'unique', detail: 'one_title', value: 'CTO' }

const explain = (
  state: Partial<ColumnState> | null,
  situation: Partial<FieldSituation> = {},
  title: unknown = 'CTO',
  confidence = 0.9,
): string | undefined =>
  explainFields(
    source,
    { id: 1, service: 0, record: { title }, confidence, resolved_at: new Date(1_000) },
    {
      row: { state: 'enriched', written: null },
      columns: state === null ? [] : [{ ...column, ...state }],
      skipped: [],
      changes: [],
      names: new Map(),
      ...situation,
    },
  )[0]?.result

const changed = (one: object): Partial<FieldSituation> => ({ changes: [one as ChangeHistory] })

test.each<[string, string | undefined]>([
  ['written by run 4', explain(ours)],
  ['written by run 4', explain(ours, changed({ ...change, lookup: 2 }))],
  [
    'not written: the column holds what run 4 wrote for other inputs',
    explain(ours, changed({ ...change, lookup: 2 }), 'CEO'),
  ],
  [
    'not written: the column holds what run 4 wrote from an earlier record',
    explain(ours, changed({ ...change, written_at: new Date(500) }), 'CEO'),
  ],
  [
    'not written: duplicate value: another row has it, and it must be unique (one_title)',
    explain({}, { skipped: [skip] }),
  ],
  [
    'not written: duplicate value: another row has it, and it must be unique (one_title); the column holds the value of run 4',
    explain(ours, { skipped: [skip] }),
  ],
  ['not written: the record has no value', explain(typed, {}, '')],
  ['not written: the column holds the same value', explain({ ...typed, value: 'CTO' })],
  ['not written: the column holds a value, which the policy `blank` protects', explain(typed)],
  // A value that does not fit is no problem of a cell that is protected.
  [
    'not written: the column holds a value, which the policy `blank` protects',
    explain(typed, {}, 'x'.repeat(21)),
  ],
  ['not written: the text is longer than the column allows', explain({}, {}, 'x'.repeat(21))],
  ['not written: the confidence is below 0.5', explain({}, {}, 'CTO', 0.4)],
  ['written by run 4, undone by run 5', explain({}, changed(undone))],
  [
    'written by run 4, and emptied since',
    explain({}, { ...changed(change), row: { state: 'enriched', written: { title: 'CTO' } } }),
  ],
  ['not written yet', explain({}, { row: { state: 'waiting', written: null } })],
  ['not written: the row does not exist', explain(null)],
])('%s', (expected, result) => {
  expect(result).toBe(expected)
})

test('no words of a reason are a code, and none contain a value', () => {
  for (const [reason, describe] of Object.entries(SKIP_REASONS)) {
    expect(describe('detail')).toMatch(/ /)
    expect(describe(null)).not.toContain('_')
    expect(describe(null)).not.toMatch(/\ba [aeio]/)
    expect(reason).not.toMatch(/_a_[aeio]/)
  }
})
