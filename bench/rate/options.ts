import { parseArgs } from 'node:util'

export interface BenchOptions {
  readonly virtual: boolean
  readonly inProcess: boolean
  readonly http: boolean
  readonly kill: boolean
  /** Only cases whose name contains one of these. */
  readonly only: readonly string[]
  /** How often to play each case in virtual time. */
  readonly times: number
}

export const USAGE = `npm run bench:rate -- [--virtual] [--in-process] [--http] [--kill] [--only TEXT]

  --virtual      every simulated service in virtual time (a minute)
  --in-process   the limiter with 5,000 calls in 1 s in real time, without HTTP (12 s)
  --http         limiters from npm in real time, with one process and four (several minutes)
  --kill         four processes, of which the leader is killed every 5 s for a minute
  --only TEXT    only cases whose name contains this; may be repeated
  --times N      how often to play each case in virtual time (20)

Without one of the first four options: the first three.`

/** @throws Error if an option is unknown, or not a number */
export function readOptions(words: readonly string[]): BenchOptions | 'help' {
  const { values } = parseArgs({
    args: [...words],
    options: {
      virtual: { type: 'boolean', default: false },
      'in-process': { type: 'boolean', default: false },
      http: { type: 'boolean', default: false },
      kill: { type: 'boolean', default: false },
      only: { type: 'string', multiple: true, default: [] },
      times: { type: 'string', default: '20' },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return 'help'
  const times = Number(values.times)
  if (!Number.isInteger(times) || times < 1)
    throw new Error(`--times: "${values.times}" found, a whole number of 1 or more expected`)
  const isPlain = !values.virtual && !values['in-process'] && !values.http && !values.kill
  return {
    virtual: values.virtual || isPlain,
    inProcess: values['in-process'] || isPlain,
    http: values.http || isPlain,
    kill: values.kill,
    only: values.only,
    times,
  }
}
