import { globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { expect, test } from 'vitest'

/** Floors, lowest first, as in docs/internals/architecture.md. A file imports only from lower floors or from its own folder. */
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

/** Outside the floors: nothing but `cli` starts them. */
const APART: ReadonlySet<string> = new Set(['sandbox', 'demo'])

const files = globSync('src/**/*.ts')
/** The code without comments, which may mention anything. */
const codeOf = (file: string): string =>
  readFileSync(file, 'utf8').replaceAll(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, '')
const folderOf = (file: string): string => file.split('/')[1] ?? ''

/** Static, dynamic and type imports of a file that stay within the project. */
function importsOf(file: string): string[] {
  const text = readFileSync(file, 'utf8')
  const specifiers = [...text.matchAll(/(?:\bfrom|\bimport)\s*\(?\s*'(\.{1,2}\/[^']+)'/g)].map(
    (match) => match[1] ?? '',
  )
  return specifiers.map((specifier) => normalize(join(dirname(file), specifier)))
}

test('every file is on a floor', () => {
  const without = files.filter((file) => !APART.has(folderOf(file)) && FLOORS[folderOf(file)] === undefined)
  expect(without).toEqual([])
})

test('docs/internals/architecture.md lists the floors', () => {
  const documented = [
    ...readFileSync('docs/internals/architecture.md', 'utf8').matchAll(/^\| +(\d+) \| `([\w.]+)\/?` /gm),
  ].map(([, floor, path]) => [path, Number(floor)])
  expect(Object.fromEntries(documented)).toEqual(FLOORS)
})

test('a file imports only from lower floors or its own folder', () => {
  const breaches = files.flatMap((file) =>
    importsOf(file)
      .filter((imported) => imported.startsWith('src/'))
      .filter((imported) => !mayImport(folderOf(file), folderOf(imported)))
      .map((imported) => `${file} imports ${imported}`),
  )
  expect(breaches).toEqual([])
})

function mayImport(from: string, to: string): boolean {
  if (from === to) return true
  if (APART.has(to)) return from === 'cli' || from === 'demo'
  if (from === 'sandbox') return false
  // The demo uses the whole program, and the views of the commands.
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

/** Values that a file imports; types make no floor. */
function valueImportsOf(file: string): string[] {
  const imports = codeOf(file).matchAll(/^(?:import|export) (?!type\b)([\w*{][^'"`;=]*?)\sfrom '(\.[^']+)'/gm)
  return [...imports].flatMap(([, names = '', from = '']) =>
    /^\{(?:\s*type \w+,?)+\s*\}$/.test(names) ? [] : normalize(join(dirname(file), from)),
  )
}

test('src/store has at most five floors of its own: its terms stand once, and statements do not build on one another', () => {
  const floorOf = (file: string): number =>
    1 +
    Math.max(
      0,
      ...valueImportsOf(file)
        .filter((imported) => imported.startsWith('src/store/'))
        .map(floorOf),
    )
  const floors = files.filter((file) => folderOf(file) === 'store').map((file) => [file, floorOf(file)])
  expect(floors.filter(([, floor]) => Number(floor) > 5)).toEqual([])
  expect(floors.filter(([, floor]) => floor === 5)).not.toEqual([])
})

test('a report is printed without loading its description, which is imported for its types alone', () => {
  const isDescription = (file: string): boolean => file.startsWith('src/domain/report/')
  const loaders = files.filter((file) => !isDescription(file) && valueImportsOf(file).some(isDescription))
  expect(loaders).toEqual([])
})

test('only the limiter imports Bottleneck', () => {
  const users = files.filter((file) => readFileSync(file, 'utf8').includes("from 'bottleneck'"))
  expect(users).toEqual(['src/service/rate-limit/limiter.ts'])
})

test('only main.ts and process.ts touch the process', () => {
  const users = files.filter((file) =>
    /\bprocess\.(exit|exitCode|on|once|env|argv|stdout|stderr)\b/.test(codeOf(file)),
  )
  expect(users.toSorted()).toEqual(['src/main.ts', 'src/process.ts'])
})

test('a file has at most 500 lines', () => {
  const long = files.filter((file) => readFileSync(file, 'utf8').split('\n').length > 500)
  expect(long).toEqual([])
})

/** The packages that loading a file loads, with the file that imports each; what is imported dynamically does not count. */
function packagesLoadedBy(entry: string): Map<string, string> {
  const packages = new Map<string, string>()
  const seen = new Set<string>()
  const visit = (file: string): void => {
    if (seen.has(file)) return
    seen.add(file)
    const imports = codeOf(file).matchAll(
      /^(?:import|export) (?!type\b)(?:[\w*{][^'"`;=]*\sfrom )?'([^']+)'/gm,
    )
    for (const [, name = ''] of imports) {
      if (name.startsWith('.')) visit(normalize(join(dirname(file), name)))
      else packages.set(name, file)
    }
  }
  visit(entry)
  return packages
}

test('help and version load no database, no HTTP client and no HTTP server', () => {
  const loaded = packagesLoadedBy('src/process.ts')
  expect(loaded.has('@commander-js/extra-typings')).toBe(true)
  const heavy = ['kysely', 'pg', 'undici', 'fastify']
  expect(heavy.flatMap((name) => loaded.get(name) ?? [])).toEqual([])
})
