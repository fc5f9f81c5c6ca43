import { describe, expect, test } from 'vitest'
import { EXIT_MEANINGS, program } from '../../../src/cli/command.ts'
import { commands } from '../../../src/cli/commands.ts'
import { parseCommandLine } from '../../../src/cli/cli.ts'
import { ENVIRONMENT_VARIABLES, readEnvironment } from '../../../src/config/environment.ts'
import { readVersion } from '../../../src/util/version.ts'

test.each(['', 'help', '--help', '-h'])(
  'the help of the program lists every command, option, variable and exit code: "%s"',
  (word) => {
    const text = parseCommandLine(word === '' ? [] : [word])
    for (const { name } of commands) expect(text).toMatch(new RegExp(`^  ${name} +\\S`, 'm'))
    for (const { long } of program.options) expect(text).toContain(long)
    for (const name of Object.keys(ENVIRONMENT_VARIABLES)) expect(text).toContain(name)
    for (const [code, meaning] of Object.entries(EXIT_MEANINGS))
      expect(text).toMatch(new RegExp(`^  ${code} +${meaning}`, 'm'))
  },
)

test.each(['-v', '--version', 'run --version', '--json --version'])('%s gives the version', (line) => {
  expect(parseCommandLine(line.split(' '))).toBe(`${readVersion()}\n`)
})

describe.each(commands.map((one) => [one.name, one] as const))('%s', (name, command) => {
  test.each([
    [name, '--help'],
    [name, '-h'],
    ['help', name],
  ])('%s %s shows usage, options, examples and exit codes', (...words) => {
    const text = parseCommandLine(words)
    expect(text).toContain(`Usage: fillrate ${name}`)
    for (const { long } of [...command.parser.options, ...program.options]) expect(text).toContain(long)
    for (const [example] of command.examples) expect(text).toContain(example)
    for (const code of command.exits) expect(text).toContain(EXIT_MEANINGS[code])
  })

  test('has examples that parse', () => {
    for (const [example] of command.examples) {
      const [line = ''] = example.split(' | ')
      const words = [...line.matchAll(/"([^"]*)"|(\S+)/g)].map((match) => match[1] ?? match[2] ?? '')
      expect(words[0]).toBe('fillrate')
      expect(parseCommandLine(words.slice(1))).toMatchObject({ command })
    }
  })
})

test('the listed environment variables are those that are read', () => {
  const read = new Set<string>()
  readEnvironment(new Proxy({}, { get: (_, name) => void read.add(String(name).toUpperCase()) }))
  const listed = new Set(Object.keys(ENVIRONMENT_VARIABLES))
  listed.delete('NO_COLOR')
  expect(listed).toEqual(read)
})
