import { isDeepStrictEqual } from 'node:util'
import type pg from 'pg'
import {
  PRELOADED,
  config,
  expireLeases,
  recordPoints,
  runTrial,
  type ChaosFixture,
  type Trial,
  type TrialOptions,
} from './fixture.ts'
import { differences, findMiscounted, findUnlisted, findUnlistedLookups } from './invariants.ts'
import type { KillResult } from './process-faults.ts'

const { contacts } = config.sources

/** Commands that change what a run has stored. The address is that of two rows. */
export const COMMANDS: Readonly<Record<string, Pick<TrialOptions, 'command' | 'config'>>> = {
  undo: { command: ['undo', '2', '--yes', '--json'] },
  remap: {
    command: ['remap', 'contacts', '--json'],
    config: {
      ...config,
      sources: {
        ...config.sources,
        contacts: { ...contacts, outputs: { ...contacts.outputs, department: 'department' } },
      },
    },
  },
  forget: { command: ['forget', '--email', 'person29@example.com', '--yes', '--json'] },
  'forget --deleted': { command: ['forget', '--deleted', 'contacts', '--yes', '--json'] },
}

/** A command, what it alone makes of a finished run, and the points at which a kill leaves something else stored. */
export interface CommandFixture {
  readonly points: readonly string[]
  kill(point: string): Promise<KillResult>
}

export async function prepareCommand(
  { server, finished }: ChaosFixture,
  name: string,
): Promise<CommandFixture> {
  const prepared = { server, prepared: finished }
  let before: Tables | null = null
  const options: TrialOptions = {
    ...COMMANDS[name],
    prepare: async (pool, sandbox) => {
      await pool.query('alter table crm.contacts add column department text')
      // The service of the run, at another port.
      await pool.query(
        'update fillrate.services set host = $1 where id = (select max(id) from fillrate.services)',
        [new URL(sandbox.url).host],
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
  return { points: points.filter((point) => /^\w+ (?:commit|update|insert|delete|with)/.test(point)), kill }
}

type Tables = ReadonlyMap<string, ReadonlyMap<string, string>>

async function compare(
  { database, sandbox }: Trial,
  expected: Tables,
): Promise<Omit<KillResult, 'point' | 'wasKilled'>> {
  const found = await takeTables(database.pool)
  const lost = (...names: readonly string[]): number =>
    names.reduce(
      (sum, name) => sum + differences(found.get(name) ?? NONE, expected.get(name) ?? NONE).length,
      0,
    )
  const faults = await Promise.all(
    [findMiscounted, findUnlisted, findUnlistedLookups].map((find) => find(database.pool)),
  )
  return {
    rowsLost: lost('fillrate.rows'),
    recordsLost: lost('fillrate.lookups'),
    cellsWrong: lost('crm.contacts', 'crm.accounts'),
    otherFaults: lost(...OTHERS) + faults.flat().length,
    paidTwice: sandbox.stats().calls.accepted,
    inDoubt: 0,
  }
}

const NONE: ReadonlyMap<string, string> = new Map()
const OTHERS = ['changes', 'skipped_cells', 'jobs', 'deliveries', 'suppressions', 'write_back_queue'].map(
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
].join('|')

/** The rows of each table, and how often they are there. */
async function takeTables(pool: pg.Pool): Promise<Tables> {
  const tables = TABLES.map(async (table) => {
    const { rows } = await pool.query<{ row: string; times: string }>(
      `select row, count(*) as times
         from (select regexp_replace(
                       (to_jsonb(t) - array['run_id', 'lease_token', 'leased_until', 'undone_by_change_id']
                         - case when '${table}' in ('fillrate.changes', 'fillrate.write_back_queue') then 'id' else '' end
                         || jsonb_build_object('isUndone', to_jsonb(t) ->> 'undone_by_change_id' is not null))::text,
                       $1, '', 'g') as row from ${table} t) r
        group by row`,
      [VARIES],
    )
    return [table, new Map(rows.map(({ row, times }) => [row, times]))] as const
  })
  return new Map(await Promise.all(tables))
}
