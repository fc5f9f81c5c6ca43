import { parseArgs } from 'node:util'
import { contenderNames, type ContenderName } from './contender.ts'

export interface BenchOptions {
  readonly rows: number
  /** Each contender runs so often, in turn. */
  readonly rounds: number
  /** The service's latencies to measure at, in milliseconds. */
  readonly latencies: readonly number[]
  /** Also measure the peak memory at so many rows; null: don't. */
  readonly memoryRows: number | null
  readonly contenders: readonly ContenderName[]
  /** Calls under way at once, for all alike. */
  readonly concurrency: number
  /** Postgres settings other than its own. */
  readonly settings: readonly string[]
  /** Where Postgres' log goes, for auto_explain and the like; null: nowhere. */
  readonly postgresLog: string | null
  /** Also tell which statements cost Postgres most. */
  readonly statements: boolean
  /** Where Node writes a CPU profile of each contender; null: none. */
  readonly profile: string | null
}

export const USAGE = `npm run bench -- [--rows 20000] [--rounds 3] [--latency 0,20] [--memory] [--profile DIR]

  --rows N          rows of the table (20,000)
  --rounds N        how often each contender runs, in turn (3)
  --latency MS,…    the service's latencies, a table for each (0,20,100)
  --memory          also the peak memory and the rate at ten times the rows
  --memory-rows N   at so many rows instead
  --concurrency N   calls under way at once (32)
  --only NAME,…     of plain, sync and bulk only these
  --set NAME=VALUE  a Postgres setting, as often as wanted (none: Postgres as it comes)
  --postgres-log F  its log, for auto_explain and the like
  --statements      also the statements that cost Postgres most, on standard error; slows all a little
  --profile DIR     a CPU profile of each contender, to be opened in a browser's developer tools`

/** @throws Error when an option is unknown or no number */
export function readOptions(words: readonly string[]): BenchOptions | 'help' {
  const { values } = parseArgs({
    args: [...words],
    options: {
      rows: { type: 'string', default: '20000' },
      rounds: { type: 'string', default: '3' },
      latency: { type: 'string', default: '0,20,100' },
      memory: { type: 'boolean', default: false },
      'memory-rows': { type: 'string' },
      concurrency: { type: 'string', default: '32' },
      only: { type: 'string', default: contenderNames.join(',') },
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
    contenders: values.only.split(',').map(contender),
    concurrency: whole('concurrency', values.concurrency),
    settings: values.set,
    postgresLog: values['postgres-log'] ?? null,
    statements: values.statements,
    profile: values.profile ?? null,
  }
}

function whole(name: string, text: string, least = 1): number {
  const number = Number(text.replaceAll('_', ''))
  if (Number.isInteger(number) && number >= least) return number
  throw new Error(`--${name}: "${text}" found, a whole number of ${least} or more expected`)
}

function contender(text: string): ContenderName {
  const name = contenderNames.find((one) => one === text)
  if (name) return name
  throw new Error(`--only: "${text}" found, some of ${contenderNames.join(', ')} expected`)
}
