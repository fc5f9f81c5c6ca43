import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { expect, test } from 'vitest'

/** Layers, lowest first. A file imports only from lower layers or from its own folder. */
const FLOORS: Readonly<Record<string, number>> = {
  util: 0,
  domain: 1,
  config: 2,
  service: 2,
  sources: 2,
  store: 2,
  webhook: 2,
  pipeline: 3,
  runs: 4,
  actions: 5,
  init: 5,
  http: 6,
  daemon: 7,
  'app.ts': 8,
  cli: 9,
  'fillrate.ts': 10,
  'index.ts': 11,
  'process.ts': 11,
  'main.ts': 12,
}

/** Outside the floors: only `cli` starts them, and nothing else depends on them. */
const APART: readonly string[] = ['sandbox', 'demo']

const files = globSync('src/**/*.ts')
/** Without comments, which may name anything. */
const codeOf = (file: string): string =>
  readFileSync(file, 'utf8').replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
const roomOf = (file: string): string => file.split('/')[1] ?? ''

/** Static, dynamic and type imports of a file that stay within the project. */
function importsOf(file: string): string[] {
  const text = readFileSync(file, 'utf8')
  const specifiers = [...text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*'(\.{1,2}\/[^']+)'/g)].map(
    (match) => match[1] ?? '',
  )
  return specifiers.map((specifier) => normalize(join(dirname(file), specifier)))
}

test('every file is in a room that has a floor', () => {
  const homeless = files.filter((file) => !APART.includes(roomOf(file)) && FLOORS[roomOf(file)] === undefined)
  expect(homeless).toEqual([])
})

test('a file imports only from lower floors or its own room', () => {
  const breaches = files.flatMap((file) =>
    importsOf(file)
      .filter((imported) => imported.startsWith('src/'))
      .filter((imported) => !mayImport(roomOf(file), roomOf(imported)))
      .map((imported) => `${file} imports ${imported}`),
  )
  expect(breaches).toEqual([])
})

function mayImport(from: string, to: string): boolean {
  if (from === to) return true
  if (APART.includes(to)) return from === 'cli' || from === 'demo'
  if (from === 'sandbox') return false
  // The demo shows what the commands show: it is one more user of the whole program.
  if (from === 'demo') return true
  return (FLOORS[from] ?? -1) > (FLOORS[to] ?? Number.POSITIVE_INFINITY)
}

test('there are no cycles, type imports included', () => {
  const graph = new Map(files.map((file) => [file, importsOf(file)]))
  const done = new Set<string>()
  const cycles: string[] = []
  const visit = (file: string, path: readonly string[]): void => {
    if (path.includes(file)) {
      cycles.push([...path.slice(path.indexOf(file)), file].join(' → '))
      return
    }
    if (done.has(file)) return
    for (const imported of graph.get(file) ?? []) visit(imported, [...path, file])
    done.add(file)
  }
  for (const file of files) visit(file, [])
  expect(cycles).toEqual([])
})

test('only the limiter imports Bottleneck', () => {
  const users = files.filter((file) => readFileSync(file, 'utf8').includes("from 'bottleneck'"))
  expect(users).toEqual(['src/service/rate-limit/limiter.ts'])
})

test('only main and what it starts touch the process', () => {
  const users = files.filter((file) =>
    /\bprocess\.(exit|exitCode|on|once|env|argv|stdout|stderr)\b/.test(codeOf(file)),
  )
  expect(users.toSorted()).toEqual(['src/main.ts', 'src/process.ts'])
})

/** Longer than they should be, each with its reason. */
const LONG: Readonly<Record<string, string>> = {
  'src/app.ts': 'the composition root',
}

test('files stay small enough to be about one thing', () => {
  const long = files.filter((file) => readFileSync(file, 'utf8').split('\n').length > 320)
  expect(long.filter((file) => LONG[file] === undefined)).toEqual([])
})
