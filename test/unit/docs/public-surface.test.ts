import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { listSurfaces } from '../../../scripts/public-surface/surfaces.ts'

const listed = JSON.parse(readFileSync('test/fixtures/public-surface.json', 'utf8')) as Record<
  string,
  string[]
>
const present = await listSurfaces()

test.each(Object.keys(present))('%s: the list says what is there', (name) => {
  expect(present[name]?.length).toBeGreaterThan(40)
  expect(
    present[name],
    '`npm run docs` adds what is new; what is missing was promised, and goes with a new major version only',
  ).toEqual(listed[name])
})

test('every surface is listed', () => {
  expect(Object.keys(listed)).toEqual(Object.keys(present))
})
