import { isDeepStrictEqual } from 'node:util'
import type pg from 'pg'
import {
  PRELOADED,
  expireLeases,
  recordPoints,
  runTrial,
  type ChaosFixture,
  type KillPoint,
  type Trial,
  type TrialOptions,
} from './fixture.ts'
import { onServer } from '../support/server.ts'
import { differences, findMiscounted, findMisnamedFailures } from './invariants.ts'
import type { KillResult } from './process-faults.ts'
import type { Scenario } from './scenario.ts'

const withDepartment = ({ config }: Scenario): Scenario['config'] => {
  const { contacts } = config.sources
  const outputs = { ...contacts.outputs, department: 'department' }
  return { ...config, sources: { ...config.sources, contacts: { ...contacts, outputs } } }
}

/** Commands that change what a run has stored. The address is that of two rows. */
export const COMMANDS: Readonly<
  Record<string, { readonly command: readonly string[]; readonly config?: typeof withDepartment }>
> = {
  undo: { command: ['undo', 'RUN', '--yes', '--json'] },
  remap: { command: ['remap', 'contacts', '--json'], config: withDepartment },
  forget: { command: ['forget', '--email', 'person29@example.com', '--yes', '--json'] },
  'forget --deleted': { command: ['forget', '--deleted', 'contacts', '--yes', '--json'] },
}

/** A command, what it alone makes of a finished run, and the points at which a kill leaves something else stored. */
export interface CommandFixture {
  readonly points: readonly KillPoint[]
  kill(point: string): Promise<KillResult>
}

export async function prepareCommand(
  { server, scenario, finished }: ChaosFixture,
  name: string,
): Promise<CommandFixture> {
  const prepared = { server, scenario, prepared: finished }
  const { command = [], config } = COMMANDS[name] ?? {}
  const run = await findLastRun(server, finished)
  let before: Tables | null = null
  const options: TrialOptions = {
    command: command.map((word) => (word === 'RUN' ? run : word)),
    ...(config && { config: config(scenario) }),
    prepare: async (pool, sandboxes) => {
      await pool.query('alter table crm.contacts add column department text')
      // The services of the run, at other ports: one may have been an earlier service's.
      await pool.query(`update fillrate.services set host = 'earlier ' || host`)
      for (const [service, { url }] of Object.entries(sandboxes))
        await pool.query(
          `update fillrate.services set host = $1
            where id = (select max(id) from fillrate.services where coalesce(name, '') = $2)`,
          [new URL(url).host, service],
        )
      before ??= await takeTables(pool)
    },
  }
  const { trial, points } = await recordPoints(prepared, options)
  const expected = await takeTables(trial.database.pool)
  await trial.close()
  if (isDeepStrictEqual(before, expected)) throw new Error(`${name} changed nothing: ${trial.ended.stdout}`)
  const kill = async (point: string): Promise<KillResult> => {
    const killed = await runTrial(prepared, { ...options, variables: { ...PRELOADED, CHAOS_KILL_AT: point } })
    try {
      const wasKilled = killed.ended.code === null
      if (wasKilled) await expireLeases(killed.database)
      const again = await killed.cli.run(...(options.command ?? []))
      if (again.code !== 0) throw new Error(`given again, it exited with ${again.code}: ${again.stderr}`)
      return { point, wasKilled, ...(await compare(killed, expected)) }
    } finally {
      await killed.close()
    }
  }
  // What is stored changes with a commit, or with a writing statement outside of a transaction.
  const writing = points.filter((point) => /^\w+ (?:commit|update|insert|delete|with)/.test(point.name))
  return { points: writing, kill }
}

/** The number of the last run. */
async function findLastRun(server: string, database: string): Promise<string> {
  const url = new URL(server)
  url.pathname = `/${database}`
  const found = await onServer(url.href, (client) =>
    client.query<{ run: string }>('select max(id) as run from fillrate.runs'),
  )
  return found.rows[0]?.run ?? ''
}

type Tables = ReadonlyMap<string, ReadonlyMap<string, string>>

async function compare(
  { database, sandboxes }: Trial,
  expected: Tables,
): Promise<Omit<KillResult, 'point' | 'wasKilled'>> {
  const found = await takeTables(database.pool)
  const lost = (...names: readonly string[]): number =>
    names.reduce(
      (sum, name) => sum + differences(found.get(name) ?? NONE, expected.get(name) ?? NONE).length,
      0,
    )
  const faults = await Promise.all([findMiscounted, findMisnamedFailures].map((find) => find(database.pool)))
  return {
    rowsLost: lost('fillrate.rows'),
    recordsLost: lost('fillrate.lookups'),
    cellsWrong: lost('crm.contacts', 'crm.accounts'),
    otherFaults: lost(...OTHERS) + faults.flat().length,
    paidTwice: Object.values(sandboxes).reduce((sum, { stats }) => sum + stats().calls.accepted, 0),
    inDoubt: 0,
  }
}

const NONE: ReadonlyMap<string, string> = new Map()
const OTHERS = ['changes', 'skipped_cells', 'jobs', 'deliveries', 'suppressions', 'answered_lookups'].map(
  (table) => `fillrate.${table}`,
)
const TABLES = ['fillrate.rows', 'fillrate.lookups', 'crm.contacts', 'crm.accounts', ...OTHERS]

/**
 * What differs from try to try: times, the numbers of runs, and whether it was the first or the second try that has written
 * a row. A row with a cell that the table refuses is tried again by each remap, and is then unchanged.
 */
const VARIES = [
  String.raw`\d{4}-\d\d-\d\d[T ][^"]*`,
  String.raw`by run \d+`,
  String.raw`"undone": \d+`,
  String.raw`"state": "(enriched|unchanged)"`,
  String.raw`"cells_(written|protected)": \d+`,
  // Read only while a row waits.
  String.raw`"only_blanks": (true|false)`,
].join('|')

/** A row's lookups are compared as one list: a remap in between may have made the last one that found a record the row's own. */
const LISTED: Readonly<Record<string, string>> = {
  'fillrate.rows': `- '{lookup_id,missed_lookup_ids}'::text[] || jsonb_build_object('lookups', array_remove(missed_lookup_ids || lookup_id, null))`,
  'fillrate.changes': `- 'id'`,
  // Of a value that the table refuses, whichever record it was tried from last.
  'fillrate.skipped_cells': `- 'lookup_id'`,
}

/** The rows of each table, and how often they are there. */
async function takeTables(pool: pg.Pool): Promise<Tables> {
  const tables = TABLES.map(async (table) => {
    const { rows } = await pool.query<{ row: string; times: string }>(
      `select row, count(*) as times
         from (select regexp_replace(
                       (to_jsonb(t) - array['run_id', 'lease_token', 'leased_until', 'undone_by_change_id']
                         ${LISTED[table] ?? ''} || jsonb_build_object('isUndone', to_jsonb(t) ->> 'undone_by_change_id' is not null))::text,
                       $1, '', 'g') as row from ${table} t) r
        group by row`,
      [VARIES],
    )
    return [table, new Map(rows.map(({ row, times }) => [row, times]))] as const
  })
  return new Map(await Promise.all(tables))
}
