import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

// The rules of CONTRIBUTING.md about language and file size, as far as a program can check them.

/** Words of the project's former vocabulary. Data is reported, requested and stored. */
const BANNED =
  /\b(told|asked|asks?|somebody|someone|nobody|whoever|anybody|at the most|is no more|so many|so long|tells? of|put down|would not have it|lest)\b/gi

const sources = globSync('src/**/*.ts').toSorted()
const documents = ['README.md', 'CONTRIBUTING.md', ...globSync('docs/**/*.md').toSorted()]

test('sources and documents are free of banned words', () => {
  const found = [...sources, ...documents].flatMap((file) =>
    readFileSync(file, 'utf8')
      .split('\n')
      .flatMap((line, n) => [...line.matchAll(BANNED)].map(([word]) => `${file}:${n + 1}: ${word}`)),
  )
  expect(found).toEqual([])
})

/** Exported names, each with the files that declare it. */
function listExports(files: readonly string[]): [name: string, file: string][] {
  const declaration =
    /^export (?:default )?(?:async )?(?:abstract )?(?:function\*?|class|interface|type|const|let|enum) (\w+)/gm
  return files.flatMap((file) =>
    [...readFileSync(file, 'utf8').matchAll(declaration)].map(([, name = '']): [string, string] => [
      name,
      file,
    ]),
  )
}

test('exported names are unique', () => {
  const byName = Map.groupBy(listExports(sources), ([name]) => name)
  const repeated = [...byName].filter(([, exports]) => new Set(exports.map(([, file]) => file)).size > 1)
  expect(repeated.map(([name, exports]) => [name, ...exports.map(([, file]) => file)])).toEqual([])
})

test('exported names differ by more than capitals', () => {
  // In `domain/report` a schema has the name of the type that is inferred from it, as zod's own documentation has it.
  const compared = sources.filter((file) => !file.startsWith('src/domain/report/'))
  const spellings = Map.groupBy(new Set(listExports(compared).map(([name]) => name)), (name) =>
    name.toLowerCase(),
  )
  expect([...spellings.values()].filter(({ length }) => length > 1)).toEqual([])
})

test('few files have fewer than 40 lines', () => {
  const short = sources.filter((file) => readFileSync(file, 'utf8').split('\n').length <= 40)
  expect(short.length).toBeLessThan(30)
})
