import { once } from 'node:events'
import { FAULT_MEANINGS, type FaultName, type FaultShares } from '../../sandbox/options.ts'
import {
  CLOSING_MESSAGE,
  type CliCallOf,
  Exit,
  UsageError,
  createParser,
  defineCommand,
  printAnswer,
} from '../command.ts'
import { ExpectedError, parseMs, parsePortNumber, parseWholeFrom } from '../options.ts'

const sandboxParser = createParser('sandbox')
  .summary('runs a local stand-in for the enrichment service, with configurable faults')
  .description(
    'A stand-in for the enrichment service: every endpoint, rate-limit headers, bulk jobs with signed webhooks. ' +
      'Records are generated from the input and are the same for the same seed. Statistics are at /_stats.',
  )
  .option('--port <N>', 'default: 4010; 0: any free port', parsePortNumber, 4010)
  .option('--limit <N>', 'calls per window; default: no limit', parseWholeFrom(1), null)
  .option('--window <2s>', 'length of a window; default: 10s', parseMs, 10_000)
  .option('--seed <N>', 'determines records, faults and delays; default: 1', parseWholeFrom(0), 1)
  .option(
    '--knows <SHARE>',
    'share of the people and companies that it knows, others with another seed; default: 87.5%',
    parseShare,
    0.875,
  )
  .option('--latency <100ms>', 'response time; default: none', parseMs, 0)
  .option('--job-delay <2s>', 'delay between a job and its webhook; default: 200ms to 1s', parseMs, null)
  .option('--fault <NAME=SHARE,…>', 'faults, and how frequent each is', parseFaults, {})

export const sandboxCommand = defineCommand(sandboxParser, {
  group: 'test',
  examples: [
    ['fillrate sandbox --limit 200 --window 2s', 'a limit of 200 calls in 2 seconds'],
    ['fillrate sandbox --port 4011 --seed 2 --knows 45%', 'a second service, which knows other people'],
    ['fillrate sandbox --fault 500=5%,duplicate=10%', 'server errors and duplicate webhooks'],
  ],
  readsEnvironment: false,
  onInterrupt: CLOSING_MESSAGE,
  longLived: true,
  terms: { title: 'Faults', list: FAULT_MEANINGS },

  async handler(call) {
    const { startSandbox } = await import('../../sandbox/server.ts')
    const { port, limit, window, seed, knows, latency, jobDelay, fault } = call.flags
    const service = await startSandbox({
      port,
      limit,
      windowMs: window,
      seed,
      notFoundShare: 1 - knows,
      latencyAfterMs: latency,
      ...(jobDelay !== null && { jobDelayMs: jobDelay }),
      faults: fault,
    }).catch(toPortError(call))
    call.onEnd(() => service.close())
    const { url, keys, webhookSecret } = service
    const { stdout, stderr, signal } = call
    printAnswer(call, {
      json: { url, keys, webhook_secret: webhookSecret },
      text: () => [
        `The service answers at ${url}, and counts at ${url}/_stats.`,
        '',
        stdout.paint('heading', 'Environment'),
        `  export FILLRATE_BASE_URL=${url}`,
        `  export FILLRATE_API_KEY=${keys[0] ?? ''}`,
        `  export FILLRATE_WEBHOOK_SECRET=${webhookSecret}`,
      ],
    })
    if (stderr.isTTY) stderr.line(stderr.paint('quiet', '\nPress Ctrl-C to stop.'))
    if (!signal.aborted) await once(signal, 'abort')
    return Exit.done
  },
})

/** A percentage, as a share from 0 to 1. */
function parseShare(text: string): number {
  const share = Number(/^\s*(\d*\.?\d+)%\s*$/.exec(text)?.[1] ?? Number.NaN) / 100
  if (!(share <= 1)) throw new ExpectedError('a share from 0% to 100%')
  return share
}

/** Faults with their shares, as `500=5%,duplicate=10%`. */
function parseFaults(text: string): FaultShares {
  const isFault = (name: string): name is FaultName => Object.hasOwn(FAULT_MEANINGS, name)
  const faults: Partial<Record<FaultName, number>> = {}
  for (const part of text.split(',')) {
    const [name = '', share = ''] = part.split('=').map((side) => side.trim())
    if (!isFault(name))
      throw new ExpectedError(`faults with a share, as 500=5%: ${Object.keys(FAULT_MEANINGS).join(', ')}`)
    faults[name] = parseShare(share)
  }
  return faults
}

const toPortError =
  ({ command, flags }: CliCallOf<typeof sandboxParser>) =>
  (error: unknown): never => {
    if ((error as { code?: string }).code !== 'EADDRINUSE') throw error
    throw new UsageError(
      command,
      `port ${flags.port} is in use by another program; --port 0 takes any free port`,
    )
  }
