import { expect, test, vi } from 'vitest'
import { runCli } from '../../../src/cli/cli.ts'
import { commands } from '../../../src/cli/commands.ts'
import { intoFile } from './terminal.ts'

/** The lines that a command writes with console.log, as the completion package does. */
async function linesOf(...args: string[]): Promise<string[]> {
  const log = vi.spyOn(console, 'log').mockImplementation(() => {})
  const { output } = intoFile()
  const context = {
    stdout: output,
    stderr: output,
    env: {},
    cwd: '.',
    signal: new AbortController().signal,
    now: Date.now,
  }
  try {
    await runCli({ words: args, contextFor: () => context })
    return log.mock.calls.map(([line]) => String(line))
  } finally {
    log.mockRestore()
  }
}

const valuesOf = async (...words: string[]): Promise<string[]> =>
  (await linesOf('complete', '--', ...words)).slice(0, -1).map((line) => line.split('\t')[0] ?? '')

test('the first word is completed with every command that help lists', async () => {
  const visible = commands.filter((one) => one.group !== 'hidden').map((one) => one.name)
  expect(await valuesOf('')).toEqual(visible)
  expect(await valuesOf('sta')).toEqual(['start', 'status'])
})

test('options are those of the command and of every command', async () => {
  expect(await valuesOf('undo', '--')).toEqual([
    '--config',
    '--json',
    '--log-level',
    '--no-color',
    '--help',
    '--version',
    '--dry-run',
    '--yes',
  ])
  expect(await valuesOf('run', '--ba')).toEqual(['--backfill'])
})

test.each([
  [
    ['run', '--route', ''],
    ['auto', 'sync', 'bulk'],
  ],
  [
    ['follow', ''],
    ['install', 'remove'],
  ],
  [
    ['completion', ''],
    ['bash', 'zsh', 'fish'],
  ],
  [['--log-level', 'de'], ['debug']],
] as const)('the values of %j', async (words, values) => {
  expect(await valuesOf(...words)).toEqual(values)
})

test.each(['bash', 'zsh', 'fish'])('the script for %s calls fillrate complete', async (shell) => {
  expect((await linesOf('completion', shell)).join('\n')).toContain('fillrate complete --')
})
