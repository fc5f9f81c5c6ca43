import { globSync, readFileSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { expect, test } from 'vitest'
import { FIRST_STEPS } from '../../../src/cli/commands/init.ts'
import { readEnvironment } from '../../../src/config/environment.ts'
import { closedReason } from '../../../src/http/auth.ts'
import { codeBlocks, fillrateLines } from '../../support/code-blocks.ts'

/** The order of a first use, in the README, the documentation, the examples and what `init` prints. */
const ORDER = ['init', 'check', 'migrate', 'plan', 'run']

const inOrder = (verbs: readonly string[]): string[] => ORDER.filter((verb) => verbs.includes(verb))
const firstOf = (verbs: readonly string[]): string[] =>
  [...new Set(verbs)].filter((verb) => ORDER.includes(verb))

test('the documentation has one order of the first commands', () => {
  const pages = new Map<string, string[]>()
  for (const { file, language, code } of codeBlocks())
    if (language === 'sh')
      pages.set(file, [...(pages.get(file) ?? []), ...fillrateLines(code).map(([verb = '']) => verb)])
  expect([...pages.keys()]).toEqual(expect.arrayContaining(['README.md', 'docs/getting-started.md']))
  for (const file of ['README.md', 'docs/getting-started.md'])
    expect([file, firstOf(pages.get(file) ?? [])]).toEqual([file, ORDER])
})

test('the environment of getting-started.md opens the dashboard to which it points', () => {
  const env = codeBlocks().filter(
    ({ file, language }) => file === 'docs/getting-started.md' && language === 'ini',
  )
  const given = parseEnv(env.map(({ code }) => code).join('\n'))
  const { dashboardTokens: tokens, publicUrl } = readEnvironment(given)
  expect(publicUrl).not.toBeNull()
  expect(closedReason({ tokens, host: '127.0.0.1', publicUrl })).toBeNull()
})

test('init prints the next commands in the same order', () => {
  expect(FIRST_STEPS.map(([verb]) => verb)).toEqual(['check', 'migrate', 'plan'])
})

test('the examples name the commands in the same order', () => {
  for (const file of globSync('examples/*/README.md')) {
    const verbs = [...readFileSync(file, 'utf8').matchAll(/`fillrate (\w+)`/g)].map(([, verb = '']) => verb)
    expect([file, firstOf(verbs)]).toEqual([file, inOrder(verbs)])
    expect([file, verbs]).toEqual([file, ['check', 'migrate', 'plan', 'run']])
  }
})

test('one version of Node is required, everywhere', () => {
  const required = [
    ...globSync(['README.md', 'CONTRIBUTING.md', 'docs/**/*.md', 'examples/*/README.md']),
    'src/main.ts',
  ].flatMap((file) =>
    [
      ...readFileSync(file, 'utf8').matchAll(
        /Node(?:\.js)? (\d[\d.]*\d|\d+) (?:or (?:later|newer)|and later)/g,
      ),
    ].map(([, version = '']) => [file, version]),
  )
  const { engines } = JSON.parse(readFileSync('package.json', 'utf8')) as { engines: { node: string } }
  expect(engines.node).toBe('>=22.22')
  expect(required.map(([file]) => file)).toEqual(
    expect.arrayContaining(['README.md', 'docs/getting-started.md']),
  )
  expect(required.filter(([, version]) => version !== '22.22')).toEqual([])
})
