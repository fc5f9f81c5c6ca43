import { expect, test } from 'vitest'
import { rowInputsSql } from '../../../src/sources/inputs.ts'
import type { Source } from '../../../src/sources/source-model.ts'

const seedsOf = (inputs: Record<string, string>): string[] => {
  const { hash } = rowInputsSql({ mapping: { inputs } } as unknown as Source)
  return [...hash.matchAll(/\(t\.(\w+)\s*\)::text collate "C", (\d+)\)/g)].map(
    ([, column, seed]) => `${column} ${seed}`,
  )
}

// A row whose hash changes is picked again: another place of an input would look up every table anew.
test('each input has its own seed in the hash, for ever', () => {
  const before = { email: 't.a', linkedin_url: 't.b', name: 't.c', company: 't.d', domain: 't.e' }
  expect(seedsOf(before)).toEqual(['a 1', 'b 2', 'c 3', 'd 4', 'e 5'])
  expect(seedsOf({ first_name: 't.f', last_name: 't.g', company_domain: 't.h', ...before })).toEqual([
    'a 1',
    'b 2',
    'c 3',
    'd 4',
    'e 5',
    'f 6',
    'g 7',
    'h 8',
  ])
})
