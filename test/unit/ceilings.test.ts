import { globSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

/** The weight of the project may only fall: a change that lowers a figure writes it down here, and nothing raises one. */
const CEILINGS = {
  linesOfSource: 63_506,
  filesOfSource: 335,
  tables: 22,
  linesOfTests: 65_523,
  /** A line saved by density is none: nine of ten lines, and half of them, were as short before. */
  medianLine: 38,
  ninetyFifthLine: 106,
} as const

const read = (file: string): string => readFileSync(file, 'utf8')
const readAll = (pattern: string): string[] => globSync(pattern).map(read)
const countLines = (texts: readonly string[]): number =>
  texts.reduce((sum, text) => sum + text.split('\n').length - 1, 0)

const sources = readAll('src/**/*.ts')
const lengths = sources
  .flatMap((text) => text.split('\n'))
  .map((line) => line.length)
  .filter((length) => length > 0)
  .toSorted((a, b) => a - b)
const schema = readAll('migrations/*.ts').join('\n')

const WEIGHTS: Readonly<Record<keyof typeof CEILINGS, number>> = {
  linesOfSource: countLines(sources),
  filesOfSource: sources.length,
  // Two tables of the same columns are created in a loop over their names.
  tables:
    new Set(schema.match(/create table fillrate\.\w+/g)).size +
    2 * (schema.match(/create table \$\{name\}/g) ?? []).length,
  linesOfTests: countLines(readAll('test/**/*.ts')),
  medianLine: lengths[lengths.length >> 1] ?? 0,
  ninetyFifthLine: lengths[Math.floor(lengths.length * 0.95)] ?? 0,
}

test.each(Object.entries(CEILINGS))('%s stays below %i', (name, ceiling) => {
  const weight = WEIGHTS[name as keyof typeof CEILINGS]
  expect(weight).toBeGreaterThan(0)
  expect(weight).toBeLessThanOrEqual(ceiling)
})
