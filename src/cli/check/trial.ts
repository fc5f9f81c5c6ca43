import { isPromise } from 'node:util/types'
import { isObject } from '../../domain/json.ts'
import { LOOKUP_KINDS } from '../../domain/identifiers/kind.ts'
import type { LookupEndpoint, ServiceDefinition } from '../../domain/service/adapter.ts'
import {
  type BulkCall,
  createService,
  listBulkCalls,
  type RequestParts,
} from '../../domain/service/service.ts'
import { oneOf, quoteText, shorten } from '../../util/text.ts'
import type { CheckedProblem } from './finding.ts'
import {
  describeResult,
  type Judge,
  judgeBulk,
  judgeDelivery,
  judgeJob,
  judgeReading,
} from './trial-judges.ts'
import {
  createSampleHeaders,
  type Sample,
  SAMPLE_INPUTS,
  sampleAnswer,
  sampleAnswers,
  sampleJob,
  SAMPLE_JOB,
  sampleRecord,
} from './trial-samples.ts'

/** The first page of the results of a job, and another one. */
const SAMPLE_CURSORS = [null, 'PAGE-2']

const USUAL_RATE_HEADERS = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'retry-after']

/**
 * Calls every function of a description with made-up inputs and answers, and says of each whether it throws, returns a promise,
 * or something that nothing can be done with. Sends nothing. Every function is pure: that it is called changes nothing.
 */
export function tryFunctions(definition: ServiceDefinition): CheckedProblem[] {
  const { person, company, webhook, poll, rate } = definition
  const bulkCalls = listBulkCalls(createService(definition))
  const jobs =
    bulkCalls.length === 0 ? [sampleJob(['email'])] : bulkCalls.map((bulk) => sampleJob(bulk.kinds))
  const bodies = resultBodies(definition, person ? 'person' : 'company').filter(isOfObject)
  const deliveries = [...jobs, null].flatMap((job) => withJob(bodies, job))
  const answers = sampleAnswers(definition, 'person')
  const polls = SAMPLE_CURSORS.flatMap((cursor) =>
    jobs.flatMap((job) => withJob(answers, { jobId: SAMPLE_JOB, cursor, ...job })),
  )
  const polled = SAMPLE_CURSORS.map((cursor) => toSample(SAMPLE_JOB, cursor))
  return [
    ...(person ? tryLookup('person', person as LookupEndpoint<never>, definition) : []),
    ...(company ? tryLookup('company', company as LookupEndpoint<never>, definition) : []),
    ...bulkCalls.flatMap((bulk) => tryBulk(bulk, definition)),
    ...tryFunction('webhook.read', webhook?.read, deliveries, judgeDelivery),
    ...tryFunction(
      'webhook.signature.payload',
      webhook === undefined || webhook.signature === 'none' ? undefined : webhook.signature.payload,
      [SIGNED],
      (result) =>
        typeof result === 'string'
          ? null
          : { found: describeResult(result), expected: 'the text that is signed' },
    ),
    ...tryFunction('poll.query', poll?.query, polled, judgeQuery),
    ...tryFunction('poll.body', poll?.body, polled, judgeBody),
    ...tryFunction('poll.read', poll?.read, polls, judgeJob),
    ...tryHeaders(rate),
  ]
}

function tryBulk(bulk: BulkCall, definition: ServiceDefinition): CheckedProblem[] {
  const isCompany = bulk.kinds.includes('domain')
  const [name, kind] = isCompany ? (['companyBulk', 'company'] as const) : (['bulk', 'person'] as const)
  const job = sampleJob(bulk.kinds)
  const webhookUrl = bulk.results === 'webhook' ? 'https://fillrate.example/webhooks/enrichment/JOB' : null
  const { body, read } = definition[name] ?? {}
  const values = job.inputs.flatMap((input) => Object.values(input))
  // Answers that hold a record, an error, a job or results.
  const answers = [
    ...sampleAnswers(definition, kind),
    ...resultBodies(definition, kind).map(({ text, arguments: [one] }) => sampleAnswer(text, 200, one)),
  ]
  return [
    ...tryFunction(`${name}.body`, body, [toSample({ ...job, webhookUrl })], namesInputs(values)),
    ...tryFunction(`${name}.read`, read, withJob(answers, job), judgeBulk),
  ]
}

function tryLookup(
  name: 'person' | 'company',
  { query, body, inputs = LOOKUP_KINDS[name] as never, read }: LookupEndpoint<never>,
  definition: ServiceDefinition,
): CheckedProblem[] {
  const kinds = inputs as readonly (keyof typeof SAMPLE_INPUTS)[]
  const samples = kinds.map((kind) => toSample(SAMPLE_INPUTS[kind]))
  const problems = [
    ...tryFunction(`${name}.query`, query, samples, judgeQuery),
    ...tryFunction(`${name}.body`, body, samples, judgeBody),
  ]
  // Path, query and body together say what is looked up.
  const build = createService(definition)[name]?.build as ((input: unknown) => RequestParts) | undefined
  const whole = tryFunction(body ? `${name}.body` : `${name}.query`, build, samples, (parts, sample) =>
    namesInputs(Object.values(sample.arguments[0] as object))(parts, sample),
  )
  return [
    ...problems,
    ...(problems.length > 0 || (query ?? body) === undefined ? [] : whole),
    ...tryFunction(`${name}.read`, read, sampleAnswers(definition, name), judgeReading),
  ]
}

/** Tries a function with one sample after another, up to the first one that it does not pass. */
function tryFunction(
  place: string,
  act: ((...values: never[]) => unknown) | undefined,
  samples: readonly Sample[],
  judge: Judge,
): CheckedProblem[] {
  if (act === undefined) return []
  for (const sample of samples) {
    const problem = tryOnce(place, act, sample, judge)
    if (problem !== null) return [problem]
  }
  return []
}

function tryOnce(
  place: string,
  act: (...values: never[]) => unknown,
  sample: Sample,
  judge: Judge,
): CheckedProblem | null {
  const { headers } = sample
  const at = { place: `service.${place}`, verdict: 'error' as const }
  let result: unknown
  try {
    result = act(...(sample.arguments as never[]))
    if (isPromise(result)) {
      result.catch(() => {})
      return {
        ...at,
        found: 'a promise',
        expected: 'the value itself: every function is pure, and waits for nothing',
        todo: 'Leave out `async`. What has to be fetched before a call does not belong into a description.',
      }
    }
    if (typeof result === 'object') JSON.stringify(result)
  } catch (error) {
    return {
      ...at,
      found: `it throws for ${sample.text}: ${shorten(error instanceof Error ? `${error.name}: ${error.message}` : String(error))}`,
      expected: /read/.test(place)
        ? /^(?:person|company|bulk|companyBulk|poll)/.test(place)
          ? 'a reading of any answer: `undefined` or `unreadable` where it does not know it'
          : 'what it reads of any body: nothing, where it does not know it'
        : 'a value for every input that the service takes',
      todo: null,
    }
  }
  const misread = headers?.misread() ?? []
  if (misread.length > 0)
    return {
      ...at,
      found: `it reads the header ${quoteText(misread[0] ?? '')}`,
      expected: `names of headers in lower case: ${quoteText((misread[0] ?? '').toLowerCase())}`,
      todo: null,
    }
  const wrong = judge(result, sample)
  return wrong === null ? null : { ...at, ...wrong, found: `${wrong.found}, for ${sample.text}`, todo: null }
}

const BODIES: readonly Sample[] = [null, {}, { id: SAMPLE_JOB }, []].map((body) => toSample(body))
const SIGNED = toSample('{"job_id":"JOB-1"}', (name: string) => name)

function toSample(...values: readonly unknown[]): Sample {
  return { text: shorten(JSON.stringify(values[0]) ?? 'an empty body', 100), arguments: values }
}

const isOfObject = (sample: Sample): boolean => isObject(sample.arguments[0])
const withJob = (samples: readonly Sample[], job: object | null): Sample[] =>
  samples.map((one) => ({ ...one, arguments: [...one.arguments, job] }))

const resultBodies = (definition: ServiceDefinition, kind: 'person' | 'company'): Sample[] => {
  const record = sampleRecord(definition, kind)
  return [...BODIES, toSample({ results: [record] }), toSample([record])]
}

const judgeBody: Judge = (result) => {
  if (result === undefined) return { found: 'nothing', expected: 'a body, sent as JSON' }
  return findPlaceholder(result)
}

const judgeQuery: Judge = (result) => {
  if (!isObject(result)) return { found: describeResult(result), expected: 'an object of names and values' }
  const nested = Object.entries(result).find(([, value]) => typeof value === 'object')
  if (nested !== undefined)
    return {
      found: `${quoteText(nested[0])} is ${describeResult(nested[1])}`,
      expected: 'texts, numbers, true or false; undefined is left out',
    }
  return findPlaceholder(result)
}

function findPlaceholder(result: unknown): ReturnType<Judge> {
  const [placeholder] =
    /\{(?:email|linkedin_url|name|company|domain|job_id)\}/.exec(JSON.stringify(result)) ?? []
  return placeholder === undefined
    ? null
    : {
        found: `the placeholder ${placeholder}`,
        expected: 'the value, from the argument of the function: placeholders are filled in `path` alone',
      }
}

/** Whether something of each input is sent. */
const namesInputs =
  (values: readonly unknown[]): Judge =>
  (result) => {
    const sent = toSentText(result)
    const missing = values.find((value) => !isNamed(sent, value))
    return missing === undefined
      ? findPlaceholder(result)
      : {
          found: `a request without ${quoteText(String(missing))}`,
          expected: 'a request that says what is looked up',
        }
  }

const toSentText = (result: unknown): string => decode(JSON.stringify(result) ?? '').toLowerCase()

/** Names may be cut, a profile may be its last part, and case may change. */
const isNamed = (sent: string, value: unknown): boolean =>
  [...String(value).toLowerCase().split(' '), String(value).toLowerCase().split('/').at(-1) ?? ''].some(
    (word) => sent.includes(word),
  )

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

function tryHeaders(rate: ServiceDefinition['rate']): CheckedProblem[] {
  if (typeof rate?.headers !== 'function') return []
  const headers = createSampleHeaders()
  const sample: Sample = { text: 'headers', arguments: [headers.values], headers }
  return tryFunction('rate.headers', rate.headers as (...values: never[]) => unknown, [sample], (result) => {
    const expected = `an object with ${oneOf(USUAL_RATE_HEADERS)}`
    if (!isObject(result)) return { found: describeResult(result), expected }
    const unknown = Object.keys(result).filter((name) => !USUAL_RATE_HEADERS.includes(name))
    // It may return all headers, with the usual ones among them.
    return unknown.length > 0 && unknown.length === Object.keys(result).length
      ? { found: quoteText(unknown[0] ?? ''), expected }
      : null
  })
}
