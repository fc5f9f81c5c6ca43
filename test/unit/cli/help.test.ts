import { describe, expect, test } from 'vitest'
import { parseCommand } from '../../../src/cli/args.ts'
import { typed } from '../../../src/cli/command.ts'
import { declarations, GLOBAL_FLAGS, VERBS } from '../../../src/cli/declarations.ts'
import { ENVIRONMENT } from '../../../src/cli/environment-help.ts'
import { EXIT_MEANINGS } from '../../../src/cli/exit-codes.ts'
import { commandHelp, programHelp } from '../../../src/cli/render/help.ts'
import { painter } from '../../../src/cli/render/paint.ts'
import { width } from '../../../src/cli/render/text.ts'
import { readEnvironment } from '../../../src/config/environment.ts'
import { unstyled } from './terminal.ts'

const at = (columns: number, color = false) => ({ columns, paint: painter(color) })

test('the program says each command that it has, each flag, variable and exit code', () => {
  const text = programHelp(at(80)).join('\n')
  for (const verb of VERBS.filter((verb) => declarations[verb].group !== 'hidden')) {
    expect(text).toMatch(new RegExp(`^  ${verb} +\\S`, 'm'))
  }
  for (const name of Object.keys(GLOBAL_FLAGS)) expect(text).toContain(`--${typed(name)}`)
  for (const name of Object.keys(ENVIRONMENT)) expect(text).toContain(name)
  for (const [code, meaning] of Object.entries(EXIT_MEANINGS))
    expect(text).toMatch(new RegExp(`^  ${code} +${meaning}`, 'm'))
})

describe.each(VERBS)('%s', (verb) => {
  const text = commandHelp(verb, at(80)).join('\n')

  test('tells its usage, its flags, its examples and its exit codes', () => {
    expect(text).toContain(`fillrate ${verb}`)
    for (const name of Object.keys(declarations[verb].flags)) expect(text).toContain(`--${typed(name)}`)
    for (const code of declarations[verb].exits) expect(text).toContain(EXIT_MEANINGS[code])
    for (const variable of declarations[verb].environment) expect(text).toContain(variable)
  })

  test('its examples are understood', () => {
    for (const [example] of declarations[verb].examples) {
      const [line = ''] = example.split(' | ')
      const words = [...line.matchAll(/"([^"]*)"|(\S+)/g)].map((match) => match[1] ?? match[2] ?? '')
      expect(words[0]).toBe('fillrate')
      expect(parseCommand(words.slice(1)).verb).toBe(verb)
    }
  })

  test.each([60, 80, 120])('fits %i columns', (columns) => {
    for (const line of commandHelp(verb, at(columns))) expect(width(line)).toBeLessThanOrEqual(columns)
  })

  test('reads the same with colours', () => {
    expect(unstyled(commandHelp(verb, at(80, true)).join('\n'))).toBe(text)
  })
})

test.each([60, 80, 120])('the program fits %i columns', (columns) => {
  for (const line of programHelp(at(columns))) expect(width(line)).toBeLessThanOrEqual(columns)
})

test('every variable that is read is told, and none that is not', () => {
  const read = new Set<string>()
  readEnvironment(new Proxy({}, { get: (_, name) => void read.add(String(name).toUpperCase()) }))
  const told = new Set(Object.keys(ENVIRONMENT))
  told.delete('NO_COLOR')
  expect(told).toEqual(read)
})
