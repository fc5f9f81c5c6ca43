import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { listLibrary } from '../../../scripts/public-surface/library.ts'
import { listSchema, type Surface } from '../../../scripts/public-surface/schema.ts'
import { listBreaks, listSurfaces } from '../../../scripts/public-surface/surfaces.ts'

// What docs/versions.md promises: what users rely on is only added to.

const frozen = JSON.parse(readFileSync('test/fixtures/public-surface.json', 'utf8')) as Record<
  string,
  Surface
>
const present = await listSurfaces()

test.each(Object.keys(frozen))('%s: nothing is gone, and nothing more is demanded', (name) => {
  const [before, now] = [frozen[name], present[name]]
  if (before === undefined || now === undefined) throw new Error(`there is no surface ${name}`)
  expect(now.promises.length).toBeGreaterThan(40)
  expect(
    listBreaks(before, now),
    'this is no addition: docs/versions.md says which version may do it, `npm run freeze` accepts it',
  ).toEqual([])
})

test('every surface of the page is held', () => {
  expect(Object.keys(frozen)).toEqual(Object.keys(present))
})

const object = (properties: object, required: readonly string[] = []) => ({
  type: 'object',
  properties,
  required,
})
const text = { type: 'string' }
const properties = { name: text, kind: { enum: ['a', 'b'] }, part: object({ deep: text }) }
const base = object(properties, ['name'])

function compare(direction: 'written' | 'read', now: object): string[] {
  const surfaces = [base, now].map((schema) => {
    const surface: Surface = { promises: [], demands: [] }
    listSchema(schema, 'x', direction, surface)
    return surface
  })
  const [before, after] = surfaces
  if (before === undefined || after === undefined) throw new Error('there are two')
  return listBreaks(before, after)
}

const change = (changes: object, required = ['name']) => object({ ...properties, ...changes }, required)

describe('of what users write', () => {
  test.each([
    ['another optional field', change({ more: text })],
    ['another value', change({ kind: { enum: ['a', 'b', 'c'] } })],
    ['another type', change({ name: { anyOf: [text, { type: 'integer' }] } })],
    ['a new part with a required field', change({ more: object({ deep: text }, ['deep']) })],
    ['a field that may be omitted now', change({}, [])],
  ])('%s is an addition', (_, now) => {
    expect(compare('written', now)).toEqual([])
  })

  test.each([
    [
      'a field that is gone',
      object({ kind: properties.kind, part: properties.part }),
      'gone: x.name: string',
    ],
    ['a value that is gone', change({ kind: { enum: ['a'] } }), 'gone: x.kind = "b"'],
    ['another type instead', change({ name: { type: 'integer' } }), 'gone: x.name: string'],
    ['a new required field', change({ more: text }, ['name', 'more']), 'new: x demands more'],
    ['a field that is required now', change({}, ['name', 'kind']), 'new: x demands kind'],
    ['one of a part', change({ part: object({ deep: text }, ['deep']) }), 'new: x.part demands deep'],
    ['a new bound', change({ name: { ...text, minLength: 3 } }), 'new: x.name demands minLength 3'],
  ])('%s is none', (_, now, expected) => {
    expect(compare('written', now)).toContain(expected)
  })

  test('a default that changes is none', () => {
    const surfaces = ['90d', '30d'].map((given) => {
      const surface: Surface = { promises: [], demands: [] }
      listSchema({ ...text, default: given }, 'x', 'written', surface)
      return surface
    })
    expect(listBreaks(surfaces[0] as Surface, surfaces[1] as Surface)).toEqual(['gone: x default "90d"'])
  })
})

describe('of what users read', () => {
  test.each([
    ['another field', change({ more: text })],
    ['another value', change({ kind: { enum: ['a', 'b', 'c'] } })],
    ['a field that is always there now', change({}, ['name', 'kind'])],
  ])('%s is an addition', (_, now) => {
    expect(compare('read', now)).toEqual([])
  })

  test.each([
    ['a field that may be missing now', change({}, []), 'gone: x.name is always there'],
    [
      'one that may be null now',
      change({ name: { anyOf: [text, { type: 'null' }] } }),
      'gone: x.name: string',
    ],
  ])('%s is none', (_, now, expected) => {
    expect(compare('read', now)).toContain(expected)
  })
})

test('of the library, an export, a member, or a parameter that changes is none', () => {
  const folder = mkdtempSync(join(tmpdir(), 'surface-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const read = (source: string): Surface => {
    writeFileSync(join(folder, 'part.ts'), source)
    writeFileSync(
      join(folder, 'index.ts'),
      "export * from './part.ts'\nexport { run as start } from './part.ts'\n",
    )
    return listLibrary(join(folder, 'index.ts'))
  }
  const before = read(
    'export interface RunOptions { readonly name: string; more?: 1 }\nexport async function run(a: string): Promise<void> {}',
  )
  expect(before.promises).toContain('start.takes: (a: string): Promise<void>')
  const added = read(
    'export interface RunOptions { readonly name: string; more?: 1; most?: 2 }\nexport async function run(a: string): Promise<void> { return }\nexport const x = 1',
  )
  expect(listBreaks(before, added)).toEqual([])
  const changed = read(
    'export interface RunOptions { name: number; most: 2 }\nexport async function run(a: string, b: number): Promise<void> {}',
  )
  expect(listBreaks(before, changed)).toEqual([
    'gone: RunOptions.name: string',
    'gone: RunOptions.more: 1',
    'gone: run.takes: (a: string): Promise<void>',
    'gone: start.takes: (a: string): Promise<void>',
    'new: RunOptions demands most',
  ])
})
