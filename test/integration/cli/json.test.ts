import { expect, test } from 'vitest'
import { REPORTS } from '../../../scripts/docs/json.ts'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { runProgram } from '../../support/program.ts'
import { openCommandLine } from './command-line.ts'

// The output of the commands, one after the other on one database. That of the promised ones is as fillrate-json.schema.json says.

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

/** Each with the report that it prints; null: one that is not promised. */
const lines: readonly (readonly [line: string, report: keyof typeof REPORTS | null])[] = [
  ['rnu', 'error'],
  ['undo 99', 'error'],
  ['migrate', null],
  ['check', 'check'],
  ['plan --budget 10', 'plan'],
  ['follow install contacts', null],
  ['follow install contacts others', null],
  ['follow remove others', null],
  ['run --route sync --dry-run --limit 5 --budget 10', 'run'],
  ['plan --list filtered', 'plan'],
  ['run --route sync --limit 30', 'run'],
  ['run --route bulk --wait 1m', 'run'],
  ['cancel 1', 'error'],
  ['cancel --job unknown', null],
  ['failures', null],
  ['undo 2 --dry-run', null],
  ['undo 2 --yes', null],
  ['runs', null],
  ['pause contacts', null],
  ['resume contacts', null],
  ['explain contacts 1', 'explain'],
  ['explain contacts 35', 'explain'],
  ['status', 'status'],
  ['source rename gone others', null],
  ['retry --state undone --dry-run', null],
  ['remap contacts --dry-run', null],
  ['remap contacts', null],
  ['init', 'error'],
  ['serve', null],
  ['start', null],
  ['serve --port x', 'error'],
  ['forget --email contact1@example.com --yes', null],
  ['forget --list', null],
  ['forget --email contact1@example.com --allow-again', null],
  ['forget --deleted contacts --yes', null],
]

test.each(lines)(
  'fillrate %s prints one object with --json, and a promised one as it is described',
  async (line, name) => {
    for (const printed of await print(line)) {
      if (name === null) continue
      // Parsed, it has the fields that are described, and no others.
      const parsed: unknown = REPORTS[name].parse(printed)
      expect(JSON.parse(JSON.stringify(parsed))).toEqual(printed)
    }
  },
)
