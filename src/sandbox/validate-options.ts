import { isFaultName } from './faults.ts'
import { parseWebhookUrl } from './normalize.ts'
import { DEFAULT_OPTIONS, SANDBOX_AUTH_STYLES, type SandboxOptions } from './options.ts'

/** The constraint on an option, in words and as a test. */
interface OptionCheck {
  readonly expected: string
  readonly holds: (value: unknown) => boolean
}

const isText = (value: unknown): value is string => typeof value === 'string' && value !== ''
const isAtLeast = (low: number, value: unknown): value is number =>
  typeof value === 'number' && Number.isFinite(value) && value >= low
const isRange = (value: unknown) =>
  Array.isArray(value) && value.length === 2 && isAtLeast(0, value[0]) && isAtLeast(value[0], value[1])

const oneOf = (...words: readonly string[]): OptionCheck => ({
  expected: `one of ${words.join(', ')}`,
  holds: (value) => words.some((word) => word === value),
})
const wholeFrom = (low: number): OptionCheck => ({
  expected: `a whole number from ${low}`,
  holds: (value) => isAtLeast(low, value) && Number.isInteger(value),
})
const orNull = (check: OptionCheck): OptionCheck => ({
  expected: `${check.expected}, or null`,
  holds: (value) => value === null || check.holds(value),
})
const listOf = (one: OptionCheck, expected: string): OptionCheck => ({
  expected,
  holds: (value) => Array.isArray(value) && value.every((element) => one.holds(element)),
})
const share: OptionCheck = {
  expected: 'a share from 0 to 1',
  holds: (value) => isAtLeast(0, value) && value <= 1,
}
const text: OptionCheck = { expected: 'a text', holds: isText }
const flag: OptionCheck = { expected: 'true or false', holds: (value) => typeof value === 'boolean' }
const range: OptionCheck = {
  expected: 'milliseconds, or a list of two, the lower first',
  holds: (value) => isAtLeast(0, value) || isRange(value),
}

const OPTION_CHECKS: Readonly<Record<keyof SandboxOptions, OptionCheck>> = {
  host: text,
  port: { expected: 'a port from 0 to 65535', holds: (value) => isAtLeast(0, value) && value <= 65_535 },
  keys: listOf(text, 'a list of texts'),
  auth: listOf(oneOf(...SANDBOX_AUTH_STYLES), `a list of ${SANDBOX_AUTH_STYLES.join(', ')}`),
  webhookSecret: text,
  webhookUrl: orNull({
    expected: 'an http URL of this machine',
    holds: (value) => isText(value) && parseWebhookUrl(value) instanceof URL,
  }),
  seed: wholeFrom(0),
  limit: orNull(wholeFrom(1)),
  windowMs: wholeFrom(1),
  windows: oneOf('first', 'clock'),
  resetRounding: oneOf('up', 'down', 'ms'),
  retryAfter: oneOf('seconds', 'date', 'none'),
  headersShare: share,
  dateHeader: flag,
  clockSkewMs: { expected: 'milliseconds', holds: (value) => isAtLeast(-Infinity, value) },
  errorsCount: flag,
  banAfter: orNull(wholeFrom(0)),
  banMs: wholeFrom(0),
  banStatus: { expected: '429 or 403', holds: (value) => value === 429 || value === 403 },
  latencyBeforeMs: range,
  latencyAfterMs: range,
  notFoundShare: share,
  missingShare: share,
  acceptedShape: oneOf('job_id', 'job_id+request_ids', 'job_id+emails'),
  refusedShare: share,
  requestIds: oneOf('opaque', 'email', 'index'),
  jobDelayMs: range,
  ackTimeoutMs: wholeFrom(1),
  retryDelaysMs: listOf(wholeFrom(0), 'a list of milliseconds'),
  failedResults: oneOf('none', 'part'),
  faults: { expected: 'an object of shares', holds: (value) => typeof value === 'object' && value !== null },
  plan: { expected: 'a function, or null', holds: (value) => value === null || typeof value === 'function' },
  slowMs: range,
  lateMs: range,
  duplicateMs: range,
  unavailableSeconds: wholeFrom(0),
}

function faultsProblem(faults: object): string | undefined {
  for (const [name, value] of Object.entries(faults)) {
    if (!isFaultName(name)) return `faults: unknown fault '${name}'`
    if (!share.holds(value))
      return `faults.${name}: expected ${share.expected}, found ${JSON.stringify(value)}`
  }
  return undefined
}

function optionProblem(name: string, value: unknown): string | undefined {
  if (!Object.hasOwn(OPTION_CHECKS, name)) {
    return `unknown option '${name}'; the options are ${Object.keys(DEFAULT_OPTIONS).join(', ')}`
  }
  const check = OPTION_CHECKS[name as keyof SandboxOptions]
  // Keys and secrets are not repeated: an error may be logged.
  const found = name === 'keys' || name === 'webhookSecret' ? 'something else' : JSON.stringify(value)
  if (!check.holds(value)) return `${name}: expected ${check.expected}, found ${found}`
  return name === 'faults' && typeof value === 'object' && value !== null ? faultsProblem(value) : undefined
}

/**
 * Returns the given options if all are known and valid. An undefined option counts as absent.
 * @throws Error that names the option, what was expected and what was found
 */
export function validateOptions(options: unknown): Partial<SandboxOptions> {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new Error('Sandbox options: expected an object.')
  }
  const given = Object.entries(options).filter(([, value]) => value !== undefined)
  for (const [name, value] of given) {
    const problem = optionProblem(name, value)
    if (problem !== undefined) throw new Error(`Sandbox option ${problem}.`)
  }
  return Object.fromEntries(given)
}
