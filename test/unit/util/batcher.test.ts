import { expect, test } from 'vitest'
import { parseExactJson } from '../../../src/domain/json.ts'
import { estimateJsonSize } from '../../../src/util/batcher.ts'

const record = {
  name: 'Ada Nr 1',
  title: 'Head of Engineering',
  company: { name: 'Acme', domain: 'acme.example', employees: 120 },
  skills: ['compilers', 'looms', 'numbers'],
  phone: null,
  verified: true,
}

test('the estimate of a record is within a tenth of the length of its JSON', () => {
  const { length } = JSON.stringify(record)
  expect(estimateJsonSize(record)).toBeGreaterThan(0.9 * length)
  expect(estimateJsonSize(record)).toBeLessThan(1.1 * length)
})

test('what makes a record large is counted: long texts, many fields, long lists and long numbers', () => {
  expect(estimateJsonSize({ text: 'x'.repeat(1_000_000) })).toBeGreaterThan(1_000_000)
  expect(estimateJsonSize(Array.from({ length: 100_000 }, () => 1))).toBeGreaterThan(200_000)
  expect(
    estimateJsonSize(Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`field${n}`, null]))),
  ).toBeGreaterThan(150_000)
  expect(estimateJsonSize(parseExactJson(`[${'9'.repeat(900)}]`))).toBeGreaterThan(900)
  expect(estimateJsonSize(undefined)).toBeLessThan(10)
})
