import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { inject } from 'vitest'
import { unpackProgram } from '../../scripts/releases/program.ts'
import { toEmailInput, createResults } from '../../src/sandbox/results.ts'
import { Opportunity } from '../../src/sandbox/faults.ts'
import { type Sandbox, startSandbox } from '../../src/sandbox/server.ts'
import { signWebhook } from '../../src/webhook/signature.ts'
import { type CommandLine, createCommandLine } from './cli.ts'
import { cloneDatabase, type TestDatabase } from './clone.ts'
import { onServer } from './server.ts'

// Databases that released versions left behind: scripts/release-dumps.ts makes the dumps.

const FOLDER = join(import.meta.dirname, '../fixtures/releases')
/** Of the service in the dumps: a host is a part of the identity of a lookup. */
const DUMPED_SERVICE = '127.0.0.1:47110'

export const RELEASES: readonly string[] = readdirSync(FOLDER)

/** A dump that was restored, the service that it knows, and both programs with the configuration of the release. */
export interface RestoredRelease {
  readonly database: TestDatabase
  readonly sandbox: Sandbox
  /** Today's program. */
  readonly cli: CommandLine
  /** The program of the release, with the packages of this checkout. */
  readonly old: CommandLine
  /** How often each input was asked, by the old version and since. Of calls that were cut off, the service cannot say whether it bills them. */
  countAsked(): Promise<readonly AskedInput[]>
  /** Delivers the results of the jobs that the old version submitted, to a receiver on this port. */
  deliverJobs(port: number): Promise<void>
  close(): Promise<void>
}

interface AskedInput {
  readonly input: string
  readonly tried: number
  /** It was asked when the old version was killed, and its answer did not arrive. */
  readonly wasCut: boolean
}

/**
 * @param age the time since the dump, in milliseconds. All times in it are moved, as if it had been made then
 */
export async function restoreRelease(
  version: string,
  state: string,
  age = 120_000,
): Promise<RestoredRelease> {
  const sandbox = await startSandbox({
    keys: ['released-key'],
    webhookSecret: 'released-secret',
    jobDelayMs: [0, 100],
  })
  const dump = gunzipSync(readFileSync(join(FOLDER, version, `${state}.sql.gz`))).toString('utf8')
  const database = await cloneDatabase(inject('postgresUrl'), 'template0')
  const sql = moveTimes(dump, Date.now() - age).replaceAll(DUMPED_SERVICE, new URL(sandbox.url).host)
  await onServer(database.url, (client) => client.query(sql))
  const config = readFileSync(join(FOLDER, version, 'config.json'), 'utf8')
  const cli = await createCommandLine(database.url, sandbox, config)
  // Where it finds the packages.
  const place = await mkdtemp(join(import.meta.dirname, '../../.cache/released-'))
  const program = unpackProgram(join(FOLDER, version, 'program.br'), place)
  const old = await createCommandLine(database.url, sandbox, config, program)
  return {
    database,
    sandbox,
    cli,
    old,
    countAsked: async () => {
      const before = await database.query<{ input: string; tried: number; done: number }>(
        'select input, tried, single + bulk + unanswered as done from service.asked',
      )
      const since = sandbox.stats({ inputs: true }).inputs.all ?? {}
      const inputs = new Set([...before.map(({ input }) => input), ...Object.keys(since)])
      return [...inputs].map((input) => {
        const { tried, done } = before.find((one) => one.input === input) ?? { tried: 0, done: 0 }
        return { input, tried: tried + (since[input]?.tried ?? 0), wasCut: tried > done }
      })
    },
    deliverJobs: (port) => deliverJobs(database, sandbox, port),
    close: async () => {
      await Promise.all([cli.remove(), old.remove(), rm(place, { recursive: true })])
      await sandbox.close()
      await database.drop()
    },
  }
}

/** A time, or a day, as Postgres and JSON write them. */
const TIME = /(\d{4}-\d\d-\d\d)(?:([ T])(\d\d:\d\d)(:\d\d)?(\.\d+)?(?=\+00|Z))?/g

/** Moves all times in a dump, which begins with its own, so that it was made at `to`. */
function moveTimes(dump: string, to: number): string {
  const made = Date.parse(dump.slice(3, dump.indexOf('\n')))
  // Whole seconds: the fractions stay as they are written.
  const by = Math.round((to - made) / 1_000) * 1_000
  const days = Date.parse(dayOf(made + by)) - Date.parse(dayOf(made))
  return dump.replaceAll(TIME, (_, day: string, separator = '', minute = '', second = '', fraction = '') => {
    if (separator === '') return dayOf(Date.parse(day) + days)
    const moved = new Date(Date.parse(`${day}T${minute}${second || ':00'}Z`) + by).toISOString()
    return moved.slice(0, second === '' ? 16 : 19).replace('T', separator) + fraction
  })
}

const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10)

async function deliverJobs(database: TestDatabase, sandbox: Sandbox, port: number): Promise<void> {
  const jobs = await database.query<{ key: string; jobId: string; emails: string[] }>(`
    select j.key, coalesce(j.job_id, 'job_' || j.key) as "jobId",
           (select array_agg(l.key order by m.n) from unnest(j.lookup_ids) with ordinality m (id, n) join fillrate.lookups l using (id)) as emails
      from fillrate.jobs j where j.state in ('submitting', 'submitted', 'in_doubt')`)
  for (const { key, jobId, emails } of jobs) {
    const inputs = emails.map(toEmailInput)
    const point = { endpoint: 'POST /v1/person/bulk' as const, inputs: emails, nth: 0 }
    const opportunity = new Opportunity(
      point,
      () => sandbox.settings,
      () => {},
    )
    const results = createResults({ jobId, inputs, opportunity }, false, sandbox.settings)
    const body = JSON.stringify({ event_id: `evt_${key}`, job_id: jobId, status: 'completed', results })
    const headers = {
      'content-type': 'application/json',
      'x-webhook-signature': signWebhook(body, sandbox.webhookSecret),
    }
    const url = `http://127.0.0.1:${port}/webhooks/enrichment/${key}`
    const { status } = await fetch(url, { method: 'POST', headers, body })
    if (status !== 200 && status !== 202 && status !== 204)
      throw new Error(`a delivery was answered ${status}`)
  }
}
