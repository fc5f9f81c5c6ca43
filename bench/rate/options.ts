import { parseArgs } from 'node:util'

export interface BenchOptions {
  readonly virtual: boolean
  readonly alone: boolean
  readonly http: boolean
  readonly kill: boolean
  /** Only the cases whose name holds one of these. */
  readonly only: readonly string[]
  /** How often each case is played in virtual time. */
  readonly times: number
}

export const USAGE = `npm run bench:rate -- [--virtual] [--alone] [--http] [--kill] [--only TEXT]

  --virtual      every simulated service in virtual time (some seconds)
  --alone        the limiter with 5,000 calls in 1 s in real time, without HTTP (12 s)
  --http         limiters from npm in real time, one process and four (some minutes)
  --kill         four processes at work, and the one that calls killed every 5 s for a minute
  --only TEXT    only the cases whose name holds this; as often as wanted
  --times N      how often each case is played in virtual time (20)

Without any of the first four: the first three of them.`

/** @throws Error when an option is unknown or no number */
export function readOptions(words: readonly string[]): BenchOptions | 'help' {
  const { values } = parseArgs({
    args: [...words],
    options: {
      virtual: { type: 'boolean', default: false },
      alone: { type: 'boolean', default: false },
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
  const isPlain = !values.virtual && !values.alone && !values.http && !values.kill
  return {
    virtual: values.virtual || isPlain,
    alone: values.alone || isPlain,
    http: values.http || isPlain,
    kill: values.kill,
    only: values.only,
    times,
  }
}
