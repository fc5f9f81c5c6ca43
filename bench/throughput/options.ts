import { parseArgs } from 'node:util'
import { CANDIDATES, type CandidateName } from './candidate.ts'

export interface BenchOptions {
  readonly rows: number
  /** How often each candidate runs, in turn. */
  readonly rounds: number
  /** The service's latencies to measure at, in milliseconds. */
  readonly latencies: readonly number[]
  /** Also measures the peak memory at this many rows; null: does not. */
  readonly memoryRows: number | null
  readonly candidates: readonly CandidateName[]
  /** Concurrent calls, the same for all. */
  readonly concurrency: number
  /** Postgres settings that differ from the defaults. */
  readonly settings: readonly string[]
  /** A file for Postgres's log, such as that of auto_explain; null: none. */
  readonly postgresLog: string | null
  /** Also prints the statements that cost Postgres most. */
  readonly statements: boolean
  /** A folder for CPU profiles of the candidates; null: none. */
  readonly profile: string | null
}

export const USAGE = `npm run bench -- [--rows 20000] [--rounds 3] [--latency 0,20] [--memory] [--profile DIR]

  --rows N          rows of the table (20,000)
  --rounds N        how often each candidate runs, in turn (3)
  --latency MS,…    the service's latencies, one table each (0,20,100)
  --memory          also peak memory and rate at ten times the rows
  --memory-rows N   at N rows instead
  --concurrency N   concurrent calls (32)
  --only NAME,…     only these of plain, graphile-worker, pg-boss, sync and bulk
  --set NAME=VALUE  a Postgres setting; can be repeated (default: Postgres's own settings)
  --postgres-log F  write Postgres's log to F
  --statements      print the statements that cost Postgres most on standard error; slows all candidates slightly
  --profile DIR     write a CPU profile of each candidate, for a browser's developer tools`

/** @throws Error if an option is unknown or not a number */
export function readOptions(args: readonly string[]): BenchOptions | 'help' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rows: { type: 'string', default: '20000' },
      rounds: { type: 'string', default: '3' },
      latency: { type: 'string', default: '0,20,100' },
      memory: { type: 'boolean', default: false },
      'memory-rows': { type: 'string' },
      concurrency: { type: 'string', default: '32' },
      only: { type: 'string', default: CANDIDATES.join(',') },
      set: { type: 'string', multiple: true, default: [] },
      'postgres-log': { type: 'string' },
      statements: { type: 'boolean', default: false },
      profile: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return 'help'
  const rows = whole('rows', values.rows)
  const memoryRows = values['memory-rows']
  return {
    rows,
    rounds: whole('rounds', values.rounds),
    latencies: values.latency.split(',').map((text) => whole('latency', text, 0)),
    memoryRows:
      memoryRows !== undefined ? whole('memory-rows', memoryRows) : values.memory ? 10 * rows : null,
    candidates: values.only.split(',').map(parseCandidate),
    concurrency: whole('concurrency', values.concurrency),
    settings: values.set,
    postgresLog: values['postgres-log'] ?? null,
    statements: values.statements,
    profile: values.profile ?? null,
  }
}

function whole(name: string, text: string, min = 1): number {
  const number = Number(text.replaceAll('_', ''))
  if (Number.isInteger(number) && number >= min) return number
  throw new Error(`--${name}: "${text}" found, a whole number of ${min} or more expected`)
}

function parseCandidate(text: string): CandidateName {
  const name = CANDIDATES.find((one) => one === text)
  if (name) return name
  throw new Error(`--only: "${text}" found, some of ${CANDIDATES.join(', ')} expected`)
}
