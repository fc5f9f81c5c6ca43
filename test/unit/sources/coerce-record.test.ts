import { describe, expect, test } from 'vitest'
import type { OutputMapping } from '../../../src/domain/mapping.ts'
import { coerceRecord } from '../../../src/sources/coerce/record.ts'
import type { Fit } from '../../../src/sources/catalogue.ts'
import type { Source } from '../../../src/sources/source-model.ts'
import { output } from '../../integration/sources/mapping.ts'

interface Given extends Partial<OutputMapping> {
  readonly fit?: Fit
}

/** A source with outputs only, which is all that coercion reads. */
function source(outputs: Readonly<Record<string, Given>>, minConfidence = 0): Source {
  const resolved = Object.entries(outputs).map(([column, { fit, ...options }]) => ({
    column,
    attribute: column,
    path: [],
    type: {
      name: 'text',
      cast: 'text',
      isDomain: false,
      fit: fit ?? { kind: 'text' as const, maxLength: null },
    },
    fit: fit ?? { kind: 'text' as const, maxLength: null },
    mapping: output(column, column, options),
  }))
  return { name: 'people', mapping: { minConfidence }, outputs: resolved } as unknown as Source
}

describe('coerceRecord', () => {
  test('reads dotted paths, own fields only', () => {
    const outputs = source({
      a: { field: 'company.name' },
      b: { field: 'x.y' },
      c: { field: 'toString' },
      d: { field: 'company.x' },
    })
    expect(coerceRecord(outputs, { company: { name: 'Acme' }, 'x.y': 'dotted' }, 1)).toEqual({
      values: { a: 'Acme', b: 'dotted' },
      skipped: [
        { column: 'c', reason: 'absent', detail: null, value: null },
        { column: 'd', reason: 'absent', detail: null, value: null },
      ],
    })
  })

  test.each([[null], [undefined], [''], [' \u00a0\u200b'], [[]], [[' ', null]], [{}]])(
    '%j is nothing to write',
    (title) => {
      expect(coerceRecord(source({ title: {} }), { title }, 1).skipped).toMatchObject([
        { column: 'title', reason: 'absent', detail: null },
      ])
    },
  )

  test.each([0, false, 'N/A', '0'])('%j is a value', (title) => {
    expect(coerceRecord(source({ title: {} }), { title }, 1).values).toEqual({ title: String(title) })
  })

  test.each([[null], ['text'], [[]], [7]])('finds nothing in the record %j', (record) => {
    expect(coerceRecord(source({ title: {} }), record, null).skipped).toEqual([
      { column: 'title', reason: 'absent', detail: null, value: null },
    ])
  })

  test('removes what Postgres cannot store', () => {
    const outputs = source({ title: {}, json: { fit: { kind: 'jsonb' } } })
    expect(coerceRecord(outputs, { title: 'a\0b\ud800', json: { 'k\0': ['\udfff'] } }, 1).values).toEqual({
      title: 'ab',
      json: { k: [''] },
    })
  })
})

describe('confidence', () => {
  const outputs = source({ title: {}, phone: { minConfidence: 0.9 }, sure: { minConfidence: 0 } }, 0.5)
  const record = { title: 'x', phone: 'y', sure: 'z' }
  test.each<[number | null, string[]]>([
    [0.4, ['sure']],
    [0.5, ['title', 'sure']],
    [0.9, ['title', 'phone', 'sure']],
    [null, ['title', 'phone', 'sure']],
  ])('%j writes %j', (confidence, written) => {
    const { values, skipped } = coerceRecord(outputs, record, confidence)
    expect(Object.keys(values)).toEqual(written)
    expect(skipped.every((cell) => cell.reason === 'below_confidence')).toBe(true)
  })
})

describe('map and matches', () => {
  test('an unmapped value is skipped, and dropped from an array', () => {
    const outputs = source({
      a: { field: 'seniority', map: { vp: 'VP', '7': 7 } },
      b: { field: 'tags', map: { x: 1, y: true }, fit: { kind: 'jsonb' } },
      c: { field: 'other', map: { vp: 'VP' } },
      d: { field: 'tags', map: { q: 1 } },
    })
    expect(
      coerceRecord(outputs, { seniority: 'vp', tags: ['x', 'z', 'y'], other: 'constructor' }, 1),
    ).toEqual({
      values: { a: 'VP', b: [1, true] },
      skipped: [
        { column: 'c', reason: 'unmapped', detail: null, value: 'constructor' },
        { column: 'd', reason: 'unmapped', detail: null, value: ['x', 'z', 'y'] },
      ],
    })
  })

  test('a value that does not match is skipped, on every call', () => {
    const outputs = source({ phone: { matches: { source: String.raw`^\+\d{8,15}$`, flags: 'g' } } })
    for (const [phone, ok] of [
      ['+4712345678', true],
      ['+4712345678', true],
      ['12345678', false],
      [[1], false],
    ])
      expect('phone' in coerceRecord(outputs, { phone }, 1).values).toBe(ok)
  })
})

describe('what is left to the database', () => {
  test('an output with sql gets the raw field', () => {
    const outputs = source({
      a: { field: 'tags', sql: '$json' },
      b: { field: 'n', sql: '$value::numeric * 2', fit: { kind: 'integer', bits: 16 } },
    })
    expect(coerceRecord(outputs, { tags: ['x'], n: '1000000' }, 1)).toEqual({
      values: { a: ['x'], b: '1000000' },
      skipped: [],
    })
  })
})

test('one member that does not fit skips its whole group, and no other', () => {
  const outputs = source({
    phone: { group: 'phone' },
    country: { group: 'phone', fit: { kind: 'text', maxLength: 2 } },
    city: { group: 'place' },
    state: { group: 'place' },
    title: {},
    missing: {},
  })
  expect(coerceRecord(outputs, { phone: '1', country: 'Norway', city: 'Oslo', title: 'x' }, 1)).toEqual({
    values: { city: 'Oslo', title: 'x' },
    skipped: [
      {
        column: 'phone',
        reason: 'group_incomplete',
        detail: 'country: the text is longer than the column allows',
        value: '1',
      },
      { column: 'country', reason: 'too_long', detail: null, value: 'Norway' },
      { column: 'state', reason: 'absent', detail: null, value: null },
      { column: 'missing', reason: 'absent', detail: null, value: null },
    ],
  })
})
