import type { MsRange } from './rng.ts'
import type { SandboxOptions } from './options.ts'
import type { Sandbox } from './server.ts'

const timeText = (range: MsRange) =>
  typeof range === 'number' ? `${range} ms` : `${range[0]} to ${range[1]} ms`
const percent = (share: number) => `${Number((share * 100).toFixed(2))}%`

function describeRateLimit(options: SandboxOptions): string {
  if (options.limit === null) return 'no limit'
  const start = options.windows === 'first' ? 'from the first call' : 'on the clock'
  const parts = [`${options.limit} calls in ${options.windowMs} ms for each key, windows ${start}`]
  if (options.headersShare < 1) parts.push(`headers on ${percent(options.headersShare)} of responses`)
  if (options.clockSkewMs !== 0) parts.push(`clock off by ${options.clockSkewMs} ms`)
  if (options.banAfter !== null)
    parts.push(`ban of ${options.banMs} ms after ${options.banAfter} rejected calls`)
  return parts.join('; ')
}

function faultsText(options: SandboxOptions): string {
  const on = Object.entries(options.faults).filter(([, share]) => share > 0)
  return on.length === 0 ? 'none' : on.map(([name, share]) => `${name} ${percent(share)}`).join(', ')
}

/** What a user or a program needs to call a sandbox, and the same as lines to print. With its keys and its secret. */
export function describeSandbox({ url, keys, webhookSecret, settings }: Sandbox) {
  const rateLimit = describeRateLimit(settings)
  const latency = `${timeText(settings.latencyBeforeMs)} there, ${timeText(settings.latencyAfterMs)} to answer`
  const jobs = `delivered after ${timeText(settings.jobDelayMs)}, retried ${settings.retryDelaysMs.length} times`
  const rows = [
    ['address', url],
    ['keys', `${keys.join(', ')} (as ${settings.auth.join(', ')})`],
    ['webhook secret', webhookSecret],
    ['rate limit', rateLimit],
    ['latency', latency],
    ['jobs', jobs],
    ['records', `${percent(settings.notFoundShare)} not found, seed ${settings.seed}`],
    ['faults', faultsText(settings)],
    ['counts', `${url}/_stats`],
  ] as const
  return {
    url,
    keys,
    webhook_secret: webhookSecret,
    rate_limit: rateLimit,
    latency,
    jobs,
    faults: settings.faults,
    lines: rows.map(([name, value]) => `${name.padEnd(14)}  ${value}`),
  }
}
