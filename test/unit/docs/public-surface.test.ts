import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { listLibrary } from '../../../scripts/public-surface/library.ts'
import { listSchema, type Surface } from '../../../scripts/public-surface/schema.ts'
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
    '`npm run docs` writes the list: before 1.0 it becomes shorter, but for what the commit gives a reason for',
  ).toEqual(listed[name])
})

test('every surface is listed', () => {
  expect(Object.keys(listed)).toEqual(Object.keys(present))
})

const text = { type: 'string', default: 'x', minLength: 3 }
const schema = {
  type: 'object',
  required: ['name'],
  properties: { name: text, kind: { enum: ['a', 'b'] }, list: { type: 'array', items: { type: 'integer' } } },
}

describe('of a JSON Schema', () => {
  const list = (direction: 'written' | 'read'): string[] => {
    const surface: Surface = { promises: [], demands: [] }
    listSchema(schema, 'x', direction, surface)
    return [...surface.promises, ...surface.demands].toSorted()
  }

  test('what users write has its types, values, defaults, bounds and required fields', () => {
    expect(list('written')).toEqual([
      'x demands name',
      'x.kind = "a"',
      'x.kind = "b"',
      'x.kind: string',
      'x.list: array',
      'x.list[]: integer',
      'x.name default "x"',
      'x.name demands minLength 3',
      'x.name: string',
      'x: object',
    ])
  })

  test('what users read has its types and values, and what is always there', () => {
    expect(list('read')).toEqual([
      'x.kind = "a"',
      'x.kind = "b"',
      'x.kind: string',
      'x.list: array',
      'x.list[]: integer',
      'x.name is always there',
      'x.name: string',
      'x: object',
    ])
  })
})

test('of the library, exports are listed with their members and parameters', () => {
  const folder = mkdtempSync(join(tmpdir(), 'surface-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(
    join(folder, 'part.ts'),
    'export interface RunOptions { readonly name: string; more?: 1 }\nexport async function run(a: string): Promise<void> {}',
  )
  writeFileSync(
    join(folder, 'index.ts'),
    "export * from './part.ts'\nexport { run as start } from './part.ts'\n",
  )
  const { promises, demands } = listLibrary(join(folder, 'index.ts'))
  expect(promises).toEqual(
    expect.arrayContaining([
      'RunOptions.name: string',
      'RunOptions.more: 1',
      'run.takes: (a: string): Promise<void>',
      'start.takes: (a: string): Promise<void>',
    ]),
  )
  expect(demands).toEqual(['RunOptions demands name'])
})
