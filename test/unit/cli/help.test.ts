import { describe, expect, test } from 'vitest'
import { EXIT_MEANINGS, program } from '../../../src/cli/command.ts'
import { commands } from '../../../src/cli/commands.ts'
import { parseCommandLine } from '../../../src/cli/parse.ts'
import { renderCommandHelp, renderProgramHelp } from '../../../src/cli/commands/help.ts'
import { createPaint, textWidth } from '../../../src/cli/terminal.ts'
import { ENVIRONMENT_VARIABLES, readEnvironment } from '../../../src/config/environment.ts'
import { unstyled } from './terminal.ts'

const at = (textColumns: number, color = false) => ({ textColumns, paint: createPaint(color) })

test('the help of the program lists every command, option, variable and exit code', () => {
  const text = renderProgramHelp(commands, at(80)).join('\n')
  for (const { name } of commands.filter((one) => one.group !== 'hidden'))
    expect(text).toMatch(new RegExp(`^  ${name} +\\S`, 'm'))
  for (const { long } of program.options) expect(text).toContain(long)
  for (const name of Object.keys(ENVIRONMENT_VARIABLES)) expect(text).toContain(name)
  for (const [code, meaning] of Object.entries(EXIT_MEANINGS))
    expect(text).toMatch(new RegExp(`^  ${code} +${meaning}`, 'm'))
})

describe.each(commands.map((one) => [one.name, one] as const))('%s', (name, command) => {
  const text = renderCommandHelp(command, at(80)).join('\n')

  test('shows usage, options, variables and exit codes', () => {
    expect(text).toContain(`fillrate ${name}`)
    for (const { long } of command.parser.options) expect(text).toContain(long)
    for (const code of command.exits) expect(text).toContain(EXIT_MEANINGS[code])
    for (const variable of command.environment) expect(text).toContain(variable)
  })

  test('has examples that parse', () => {
    for (const [example] of command.examples) {
      const [line = ''] = example.split(' | ')
      const words = [...line.matchAll(/"([^"]*)"|(\S+)/g)].map((match) => match[1] ?? match[2] ?? '')
      expect(words[0]).toBe('fillrate')
      expect(parseCommandLine(words.slice(1)).command).toBe(command)
    }
  })

  test.each([60, 80, 120])('fits %i columns', (columns) => {
    for (const line of renderCommandHelp(command, at(columns)))
      expect(textWidth(line)).toBeLessThanOrEqual(columns)
  })

  test('reads the same with colours', () => {
    expect(unstyled(renderCommandHelp(command, at(80, true)).join('\n'))).toBe(text)
  })
})

test.each([60, 80, 120])('the program fits %i columns', (columns) => {
  for (const line of renderProgramHelp(commands, at(columns)))
    expect(textWidth(line)).toBeLessThanOrEqual(columns)
})

test('the listed environment variables are those that are read', () => {
  const read = new Set<string>()
  readEnvironment(new Proxy({}, { get: (_, name) => void read.add(String(name).toUpperCase()) }))
  const listed = new Set(Object.keys(ENVIRONMENT_VARIABLES))
  listed.delete('NO_COLOR')
  expect(listed).toEqual(read)
})
