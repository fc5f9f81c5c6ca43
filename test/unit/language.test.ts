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

test('exported names are unique', () => {
  const declaration =
    /^export (?:default )?(?:async )?(?:abstract )?(?:function\*?|class|interface|type|const|let|enum) (\w+)/gm
  const filesByName = new Map<string, Set<string>>()
  for (const file of sources)
    for (const [, name = ''] of readFileSync(file, 'utf8').matchAll(declaration))
      filesByName.set(name, (filesByName.get(name) ?? new Set()).add(file))
  const repeated = [...filesByName].filter(([, files]) => files.size > 1)
  expect(repeated.map(([name, files]) => [name, ...files])).toEqual([])
})

test('few files have fewer than 40 lines', () => {
  const short = sources.filter((file) => readFileSync(file, 'utf8').split('\n').length <= 40)
  expect(short.length).toBeLessThan(30)
})
