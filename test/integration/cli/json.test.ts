import { expect, test } from 'vitest'
import { z } from 'zod'
import { JSON_SHAPES } from '../../../scripts/docs/json-shapes.ts'
import { commands } from '../../../src/cli/commands.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runProgram } from '../../support/program.ts'
import { openCommandLine } from './command-line.ts'

// The output of the commands, one after the other on one database, as docs/json.md describes it.

const { cli } = await openCommandLine({
  prepare: async (pool) => {
    await createCrm(pool, 40)
    await pool.query(`insert into crm.contacts (email) values ('no-address')`)
    await pool.query(
      `insert into fillrate.source_state (source, paused_at, paused_by) values ('gone', now(), 'test')`,
    )
  },
  config: {
    ...crmConfig,
    sources: { ...crmConfig.sources, others: { ...crmConfig.sources.contacts, where: 't.id < 0' } },
    schedule: [{ cron: '0 2 * * *', sources: ['contacts'] }],
  },
})

async function print(line: string): Promise<unknown[]> {
  const env = cli.environment
  // What runs until it is stopped is stopped when it has printed what it prints.
  const stop = new AbortController()
  const stopsAfter = { serve: 1, start: 2 }[line] ?? Number.POSITIVE_INFINITY
  const onOutput = (text: string): void => {
    if (text.split('\n').length > stopsAfter) stop.abort()
  }
  const program = { cwd: cli.folder, env, signal: stop.signal, onOutput }
  const { stdout, stderr } = await runProgram(program, ...line.split(' '), '--json')
  expect(stderr === '' || stdout !== '').toBe(true)
  expect(stdout).toMatch(/^(?:\{.*\}\n)+$/)
  return stdout
    .trim()
    .split('\n')
    .map((one) => JSON.parse(one) as unknown)
}

const described: readonly (readonly [line: string, shape: keyof typeof JSON_SHAPES])[] = [
  ['rnu', 'error'],
  ['undo 99', 'error'],
  ['migrate', 'migrate'],
  ['check', 'check'],
  ['plan --budget 10', 'plan'],
  ['follow install contacts', 'follow'],
  ['follow install contacts others', 'follow of several'],
  ['follow remove others', 'follow'],
  ['run --route sync --dry-run --limit 5 --budget 10', 'run'],
  ['plan --list filtered', 'plan'],
  ['run --route sync --limit 30', 'run'],
  ['run --route bulk --wait 1m', 'run'],
  ['cancel 1', 'error'],
  ['cancel --job unknown', 'cancel or retry --job'],
  ['failures', 'failures'],
  ['undo 2 --dry-run', 'undo'],
  ['undo 2 --yes', 'undo'],
  ['runs', 'runs'],
  ['pause contacts', 'pause'],
  ['resume contacts', 'resume'],
  ['explain contacts 1', 'explain'],
  ['explain contacts 35', 'explain'],
  ['status', 'status'],
  ['source rename gone others --dry-run', 'source'],
  ['retry --state undone --dry-run', 'retry'],
  ['remap contacts --dry-run', 'remap'],
  ['remap contacts', 'remap'],
  ['init --out other.config.ts', 'init'],
  ['serve', 'serve'],
  ['start', 'start'],
  ['serve --port x', 'error'],
  ['forget --email contact1@example.com --yes', 'forget'],
  ['forget --list', 'forget --list'],
  ['forget --email contact1@example.com --allow-again', 'forget --allow-again'],
  ['forget --deleted contacts --yes', 'forget --deleted'],
]

test.each(described)('fillrate %s --json has the documented shape', async (line, shape) => {
  for (const printed of await print(line))
    expect(JSON_SHAPES[shape].safeParse(printed).error?.issues ?? []).toEqual([])
})

/** Commands that print no object, or one of a tool of its own. */
const UNDOCUMENTED = new Set(['sandbox', 'demo'])

test('every command is documented', () => {
  const documented = new Set<string>(Object.keys(JSON_SHAPES))
  const names = commands.map((one) => one.name).filter((name) => !UNDOCUMENTED.has(name))
  expect(names.filter((name) => !documented.has(name))).toEqual([])
  expect(Object.keys(JSON_SHAPES).filter((name) => !described.some(([, shape]) => shape === name))).toEqual([
    'cancel',
  ])
})

/** The names of all documented fields, without those that users choose. */
function listNames(schema: unknown): string[] {
  if (typeof schema !== 'object' || schema === null) return []
  if (Array.isArray(schema)) return schema.flatMap(listNames)
  const { properties = {}, ...rest } = schema as { readonly properties?: object }
  return [
    ...Object.keys(properties),
    ...listNames(Object.values(properties)),
    ...listNames(Object.values(rest)),
  ]
}

test('all names are in snake_case', () => {
  const names = Object.values(JSON_SHAPES).flatMap((shape) =>
    listNames(z.toJSONSchema(shape, { unrepresentable: 'any' })),
  )
  expect(names.length).toBeGreaterThan(200)
  expect(names.filter((name) => !/^[a-z][a-z0-9_]*$/.test(name))).toEqual([])
})
