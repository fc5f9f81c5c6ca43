import { describe, expect, test } from 'vitest'
import { program } from '../../../src/cli/command.ts'
import { commands } from '../../../src/cli/commands.ts'
import { ENVIRONMENT } from '../../../src/cli/environment-help.ts'
import { EXIT_MEANINGS } from '../../../src/cli/exit-codes.ts'
import { parseCommandLine } from '../../../src/cli/parse.ts'
import { commandHelp, programHelp } from '../../../src/cli/render/help.ts'
import { painter } from '../../../src/cli/render/paint.ts'
import { width } from '../../../src/cli/render/text.ts'
import { readEnvironment } from '../../../src/config/environment.ts'
import { unstyled } from './terminal.ts'

const at = (columns: number, color = false) => ({ columns, paint: painter(color) })

test('the program says each command that it has, each flag, variable and exit code', () => {
  const text = programHelp(commands, at(80)).join('\n')
  for (const { name } of commands.filter((one) => one.group !== 'hidden'))
    expect(text).toMatch(new RegExp(`^  ${name} +\\S`, 'm'))
  for (const { long } of program.options) expect(text).toContain(long)
  for (const name of Object.keys(ENVIRONMENT)) expect(text).toContain(name)
  for (const [code, meaning] of Object.entries(EXIT_MEANINGS))
    expect(text).toMatch(new RegExp(`^  ${code} +${meaning}`, 'm'))
})

describe.each(commands.map((one) => [one.name, one] as const))('%s', (name, command) => {
  const text = commandHelp(command, at(80)).join('\n')

  test('tells its usage, its flags, its examples and its exit codes', () => {
    expect(text).toContain(`fillrate ${name}`)
    for (const { long } of command.parser.options) expect(text).toContain(long)
    for (const code of command.exits) expect(text).toContain(EXIT_MEANINGS[code])
    for (const variable of command.environment) expect(text).toContain(variable)
  })

  test('its examples are understood', () => {
    for (const [example] of command.examples) {
      const [line = ''] = example.split(' | ')
      const words = [...line.matchAll(/"([^"]*)"|(\S+)/g)].map((match) => match[1] ?? match[2] ?? '')
      expect(words[0]).toBe('fillrate')
      expect(parseCommandLine(words.slice(1)).command).toBe(command)
    }
  })

  test.each([60, 80, 120])('fits %i columns', (columns) => {
    for (const line of commandHelp(command, at(columns))) expect(width(line)).toBeLessThanOrEqual(columns)
  })

  test('reads the same with colours', () => {
    expect(unstyled(commandHelp(command, at(80, true)).join('\n'))).toBe(text)
  })
})

test.each([60, 80, 120])('the program fits %i columns', (columns) => {
  for (const line of programHelp(commands, at(columns))) expect(width(line)).toBeLessThanOrEqual(columns)
})

test('every variable that is read is told, and none that is not', () => {
  const read = new Set<string>()
  readEnvironment(new Proxy({}, { get: (_, name) => void read.add(String(name).toUpperCase()) }))
  const told = new Set(Object.keys(ENVIRONMENT))
  told.delete('NO_COLOR')
  expect(told).toEqual(read)
})
