import { z } from 'zod'
import { FAULT_NAMES, type FaultPlan } from './faults.ts'
import { parseWebhookUrl } from './normalize.ts'

/** The ways to carry a key. */
const SANDBOX_AUTH_STYLES = ['bearer', 'x-api-key', 'basic', 'query'] as const
export type SandboxAuthStyle = (typeof SANDBOX_AUTH_STYLES)[number]

// A schema's description completes the sentence "expected …" of an error.
const text = z.string().min(1).describe('a text')
const flag = z.boolean().describe('true or false')
const share = z.number().min(0).max(1).describe('a share from 0 to 1')
const wholeFrom = (low: number) => z.int().min(low).describe(`a whole number from ${low}`)
const oneOf = <const T extends readonly string[]>(words: T) =>
  z.enum(words).describe(`one of ${words.join(', ')}`)
const orNull = <T extends z.ZodType>(schema: T) =>
  schema.nullable().describe(`${schema.description}, or null`)
const listOf = <T extends z.ZodType>(element: T, expected: string) =>
  z.array(element).readonly().describe(expected)
const milliseconds = z.number().min(0)
const range = z
  .union([milliseconds, z.tuple([milliseconds, milliseconds]).readonly()])
  .refine((value) => typeof value === 'number' || value[0] <= value[1])
  .describe('milliseconds, or a list of two, the lower first')

/**
 * All options of the sandbox. All but `host` and `port` can change while it runs. Where service-interface.md says
 * "not shown", there is an option for each reasonable reading.
 */
const OPTIONS = {
  /** Address to listen on. */
  host: text.default('127.0.0.1'),
  /** 0 picks a free port. */
  port: z.int().min(0).max(65_535).describe('a port from 0 to 65535').default(0),
  /** Active keys; remove one to revoke it. */
  keys: listOf(text, 'a list of texts').default(['sandbox-key']),
  auth: listOf(z.enum(SANDBOX_AUTH_STYLES), `a list of ${SANDBOX_AUTH_STYLES.join(', ')}`).default(
    SANDBOX_AUTH_STYLES,
  ),
  webhookSecret: text.default('sandbox-webhook-secret'),
  /** Where the delivery of a single lookup answered 202 goes if the call gave no webhook_url. */
  webhookUrl: orNull(
    z
      .string()
      .refine((url) => parseWebhookUrl(url) instanceof URL)
      .describe('an http URL of this machine'),
  ).default(null),
  /** Determines records, faults and delays. */
  seed: wholeFrom(0).default(1),

  /** Calls per window and key; null means no limit and no rate-limit headers. */
  limit: orNull(wholeFrom(1)).default(null),
  windowMs: wholeFrom(1).default(10_000),
  /** A window starts with the first call after the previous window, or on the clock. */
  windows: oneOf(['first', 'clock']).default('first'),
  /** X-RateLimit-Reset in unix seconds: rounded up, rounded down, or with milliseconds as decimals. */
  resetRounding: oneOf(['up', 'down', 'ms']).default('up'),
  /** Retry-After on a 429: seconds, an HTTP date, or omitted. */
  retryAfter: oneOf(['seconds', 'date', 'none']).default('seconds'),
  /** Share of responses that carry the X-RateLimit headers. */
  headersShare: share.default(1),
  dateHeader: flag.default(true),
  /** How far the sandbox's clock is ahead of true time: in Date, Reset and clock-aligned windows. */
  clockSkewMs: z.number().describe('milliseconds').default(0),
  /** Whether a call answered 500 or 503 counts against the limit. */
  errorsCount: flag.default(true),
  /** More 429 responses than this in one window ban the key for `banMs`; null never bans. */
  banAfter: orNull(wholeFrom(0)).default(null),
  banMs: wholeFrom(0).default(60_000),
  /** What a banned key is answered: 429 with Retry-After, or 403 without a time. */
  banStatus: z.literal([429, 403]).describe('429 or 403').default(429),

  /** Delay between receiving a call and counting it: the way there. */
  latencyBeforeMs: range.default(0),
  /** Delay between counting a call and answering it: processing and the way back. */
  latencyAfterMs: range.default(0),

  /** Share of inputs without a match. */
  notFoundShare: share.default(0.125),
  /** Share of person records that lack any one field (a phone twice as often). */
  missingShare: share.default(0.15),

  /**
   * The body of a 202: the job's identifier, also one request_id per accepted email in their order, or the accepted
   * emails in reverse alphabetical order.
   */
  acceptedShape: oneOf(['job_id', 'job_id+request_ids', 'job_id+emails']).default('job_id'),
  /** Share of a job's emails that are rejected on acceptance: no request_id, no result. */
  refusedShare: share.default(0),
  /** The form of a request_id: made up, the email as sent, or the index from 0. */
  requestIds: oneOf(['opaque', 'email', 'index']).default('opaque'),
  /** Delay between the 202 and the delivery. */
  jobDelayMs: range.default([200, 1_000]),
  /** A delivery without a 2xx answer in this time has failed. */
  ackTimeoutMs: wholeFrom(1).default(5_000),
  /** Delays before each retry of a failed delivery; after the last one it is given up. */
  retryDelaysMs: listOf(wholeFrom(0), 'a list of milliseconds').default([500, 2_000, 5_000, 15_000]),
  /** What a failed job delivers: no results, or those of some inputs. */
  failedResults: oneOf(['none', 'part']).default('none'),

  faults: z.partialRecord(z.enum(FAULT_NAMES), share).describe('an object of shares').default({}),
  /** Decides single faults, in tests; cannot be sent to another process. */
  plan: z
    .custom<FaultPlan | null>((value) => value === null || typeof value === 'function')
    .describe('a function, or null')
    .default(null),
  /** Extra delay of a 'slow' call. */
  slowMs: range.default([2_000, 5_000]),
  /** Extra delay of a 'late' delivery. */
  lateMs: range.default([5_000, 15_000]),
  /** Delay between the two deliveries of a 'duplicate'; 0 sends both at once. */
  duplicateMs: range.default([0, 200]),
  /** Retry-After of the fault '503-retry-after'. */
  unavailableSeconds: wholeFrom(0).default(1),
}

export type SandboxOptions = Readonly<z.output<z.ZodObject<typeof OPTIONS>>>

export const DEFAULT_OPTIONS: SandboxOptions = z.object(OPTIONS).parse({})

/** What is wrong with an option; undefined if it is known and valid. */
function findOptionProblem(name: string, value: unknown): string | undefined {
  if (!Object.hasOwn(OPTIONS, name))
    return `unknown option '${name}'; the options are ${Object.keys(OPTIONS).join(', ')}`
  const schema: z.ZodType = OPTIONS[name as keyof SandboxOptions].unwrap()
  const issue = schema.safeParse(value).error?.issues[0]
  if (issue === undefined) return undefined
  if (issue.code === 'unrecognized_keys') return `faults: unknown fault '${issue.keys[0]}'`
  const [fault] = issue.path
  if (name === 'faults' && fault !== undefined) {
    const found = (value as Record<PropertyKey, unknown>)[fault]
    return `faults.${String(fault)}: expected ${share.description}, found ${JSON.stringify(found)}`
  }
  // Keys and secrets are not repeated: an error may be logged.
  const found = name === 'keys' || name === 'webhookSecret' ? 'something else' : JSON.stringify(value)
  return `${name}: expected ${schema.description}, found ${found}`
}

/**
 * Returns the given options if all are known and valid. An undefined option counts as absent.
 * @throws Error that names the option, what was expected and what was found
 */
export function validateOptions(options: unknown): Partial<SandboxOptions> {
  if (typeof options !== 'object' || options === null || Array.isArray(options))
    throw new Error('Sandbox options: expected an object.')
  const given = Object.entries(options).filter(([, value]) => value !== undefined)
  for (const [name, value] of given) {
    const problem = findOptionProblem(name, value)
    if (problem !== undefined) throw new Error(`Sandbox option ${problem}.`)
  }
  return Object.fromEntries(given)
}
