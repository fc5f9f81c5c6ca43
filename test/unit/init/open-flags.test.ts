import { describe, expect, test } from 'vitest'
import type { Column } from '../../../src/sources/catalogue.ts'
import type { Fit } from '../../../src/sources/column-type.ts'
import type { CandidateField } from '../../../src/init/fields.ts'
import { readFlags } from '../../../src/init/flags.ts'
import { splitIdentifier } from '../../../src/init/words.ts'

const field = (
  name: string,
  kind: 'boolean' | 'text' | 'integer' | 'timestamptz' | 'array',
  values: readonly (string | null)[],
  labels?: readonly string[],
): CandidateField => {
  const fit = (kind === 'array' ? { kind, element: { kind: 'text' } } : { kind }) as Fit
  return {
    name,
    column: {
      name,
      notNull: false,
      canSelect: true,
      type: { name: kind === 'array' ? 'text[]' : kind, fit },
    } as Column,
    path: [],
    fit,
    words: splitIdentifier(name),
    values: values.filter((value) => value !== null),
    ...(labels && { labels }),
    holdsArrays: false,
  }
}

/** A hundred values: so many of the first, then of the second, the rest of the third. */
const some = (...counts: readonly (readonly [string | null, number])[]): (string | null)[] =>
  counts.flatMap(([value, count]) => Array.from({ length: count }, () => value))

const found = (one: CandidateField): string[] =>
  readFlags({ fields: [one], sampled: 100 }, 't', 'person').map(({ keep }) => keep)

describe('what divides the rows and is not understood', () => {
  test('a flag: the side that fewer rows have', () => {
    expect(found(field('grobnitz', 'boolean', some(['true', 10], ['false', 90])))).toEqual([
      't.grobnitz is not true',
    ])
    expect(found(field('grobnitz', 'boolean', some(['true', 90], ['false', 10])))).toEqual([
      't.grobnitz is not false',
    ])
    expect(found(field('grobnitz', 'text', some(['J', 90], ['N', 10])))).toEqual([
      "t.grobnitz is distinct from 'N'",
    ])
    expect(found(field('grobnitz', 'integer', some(['1', 20], ['0', 80])))).toEqual([
      "t.grobnitz is distinct from '1'",
    ])
  })

  test('a date that few rows have, and none that most have', () => {
    expect(found(field('grobnitz_at', 'timestamptz', some(['2026-01-01', 10])))).toEqual([
      't.grobnitz_at is null',
    ])
    expect(found(field('grobnitz_at', 'timestamptz', some(['2026-01-01', 60])))).toEqual([])
  })

  test('a key that few rows have', () => {
    expect(found(field('grobnitz_id', 'integer', some(['7', 10])))).toEqual(['t.grobnitz_id is null'])
    expect(found(field('grobnitz_id', 'integer', some(['7', 60])))).toEqual([])
  })

  test('each label of a short list that is not that of a row in use', () => {
    const values = some(['active', 70], ['frozen', 20], ['customer', 10])
    expect(found(field('grobnitz', 'text', values, ['active', 'customer', 'frozen']))).toEqual([
      "t.grobnitz is distinct from 'frozen'",
    ])
  })

  test('each tag', () => {
    expect(found(field('grobnitz', 'array', some(['x', 20]), ['golf', 'vip']))).toEqual([
      "(t.grobnitz && array['golf']::text[]) is not true",
    ])
  })

  test.each([
    ['is_vip', 'boolean', some(['true', 10], ['false', 90])],
    ['birthday', 'timestamptz', some(['1980-01-01', 10])],
    ['owner_id', 'integer', some(['7', 10])],
    ['language', 'text', some(['de', 50], ['fr', 50])],
    ['comment', 'text', some(['see above', 40])],
  ] as const)('and not %s, which says nothing against a row', (name, kind, values) => {
    expect(found(field(name, kind, values))).toEqual([])
  })
})
