import { spawnSync } from 'node:child_process'
import { expect, test, vi } from 'vitest'
import { runCli } from '../../../src/cli/cli.ts'
import { commands } from '../../../src/cli/commands.ts'
import { intoFile } from './terminal.ts'

/** The lines that a command writes with console.log, as the completion package does. */
async function linesOf(...args: string[]): Promise<string[]> {
  const log = vi.spyOn(console, 'log').mockImplementation(() => {})
  const { output, text } = intoFile()
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
    return [...text().split('\n').slice(0, -1), ...log.mock.calls.map(([line]) => String(line))]
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
    '--log-format',
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

const hasShell = (shell: string): boolean => spawnSync(shell, ['-c', '']).error === undefined

test.each(['bash', 'zsh', 'fish'])(
  '%s reads its script twice, and has completions of fillrate then',
  async (shell) => {
    const script = (await linesOf('completion', shell)).join('\n')
    expect(script).toContain('fillrate complete --')
    if (!hasShell(shell)) return
    const load = shell === 'zsh' ? `autoload -Uz compinit; compinit -D -u\n${script}` : script
    const list = {
      bash: 'complete -p fillrate',
      zsh: 'print $_comps[fillrate]',
      fish: 'complete -c fillrate',
    }[shell]
    const options = { bash: ['--norc'], zsh: ['-f'], fish: ['--no-config'] }[shell] ?? []
    const { stdout, stderr } = spawnSync(shell, [...options, '-c', `${load}\n${script}\n${list}`], {
      encoding: 'utf8',
    })
    expect(stderr).toBe('')
    expect(stdout).toContain('fillrate')
  },
)

test.runIf(hasShell('bash'))('bash completes the word under the cursor, and evaluates none', async () => {
  const complete = (...words: string[]): string =>
    spawnSync(
      'bash',
      [
        '--norc',
        '-c',
        `${script}\nfillrate() { printf 'a%s\\tmeaning\\n' "\${@:3}"; echo :4; }
         COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _fillrate; printf '%s|' "\${COMPREPLY[@]}"`,
        'test',
        ...words,
      ],
      { encoding: 'utf8' },
    ).stdout
  const script = (await linesOf('completion', 'bash')).join('\n')
  expect(complete('fillrate', 'run', '--ro')).toBe('arun|a--ro|')
  expect(complete('fillrate', 'run', '--route', '=')).toBe('arun|a--route|a|')
  expect(complete('fillrate', 'run', '--route', '=', 's')).toBe('arun|a--route|as|')
  expect(complete('fillrate', 'run', '$(echo $((40+2)))')).toBe('arun|a$(echo $((40+2)))|')
})
