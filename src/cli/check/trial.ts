import { isPromise } from 'node:util/types'
import { isObject, type JsonObject } from '../../domain/json.ts'
import { LOOKUP_KINDS } from '../../domain/identifiers/kind.ts'
import {
  type CompanyInput,
  type LookupEndpoint,
  type PersonInput,
  type ServiceDefinition,
} from '../../domain/service/adapter.ts'
import { OUTCOMES } from '../../domain/service/messages.ts'
import { createService, type RequestParts } from '../../domain/service/service.ts'
import { didYouMean, oneOf, quoteText, shorten } from '../../util/text.ts'
import type { CheckedProblem } from './finding.ts'
import {
  createSampleHeaders,
  type Sample,
  sampleAnswers,
  sampleRecord,
  sampleAnswer,
} from './trial-samples.ts'

/** Made up: no trial is about a real person. */
export const SAMPLE_INPUTS = {
  email: { email: 'ada@example.com' },
  linkedin_url: { linkedinUrl: 'https://www.linkedin.com/in/ada' },
  name_company: { name: 'Ada Lovelace', company: 'Analytical Engines' },
  domain: { domain: 'example.com' },
} as const satisfies Record<string, PersonInput | CompanyInput>
/** A function that sorts them in their place would mix up results that come in their order. */
const SAMPLE_EMAILS = Object.freeze(['ada@example.com', 'bob@example.com'])
const SAMPLE_INPUTS_OF_JOB = Object.freeze({ emails: SAMPLE_EMAILS })
const SAMPLE_JOB = 'JOB-1'

const USUAL_RATE_HEADERS = ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'retry-after']

/** What is wrong with a result; null: nothing. */
type Judge = (
  result: unknown,
  sample: Sample,
) => (Pick<CheckedProblem, 'found' | 'expected'> & Pick<Partial<CheckedProblem>, 'verdict'>) | null

/**
 * Calls every function of a description with made-up inputs and answers, and says of each whether it throws, returns a promise,
 * or something that nothing can be done with. Sends nothing. Every function is pure: that it is called changes nothing.
 */
export function tryFunctions(definition: ServiceDefinition): CheckedProblem[] {
  const { person, company, bulk, webhook, poll, rate } = definition
  const bodies = resultBodies(definition).filter(isOfObject)
  const deliveries = [...withJob(bodies, SAMPLE_INPUTS_OF_JOB), ...withJob(bodies, null)]
  const polls = withJob(sampleAnswers(definition, 'person'), { jobId: SAMPLE_JOB, ...SAMPLE_INPUTS_OF_JOB })
  return [
    ...(person ? tryLookup('person', person as LookupEndpoint<never>, definition) : []),
    ...(company ? tryLookup('company', company as LookupEndpoint<never>, definition) : []),
    ...tryFunction('bulk.body', bulk?.body, [toSample(sampleBulk(definition))], namesInputs(SAMPLE_EMAILS)),
    ...tryFunction(
      'bulk.read',
      bulk?.read,
      withJob(bulkAnswers(definition), SAMPLE_INPUTS_OF_JOB),
      judgeBulk,
    ),
    ...tryFunction('webhook.read', webhook?.read, deliveries, judgeDelivery),
    ...tryFunction(
      'webhook.signature.payload',
      webhook === undefined || webhook.signature === 'none' ? undefined : webhook.signature.payload,
      [SIGNED],
      (result) =>
        typeof result === 'string' ? null : { found: describe(result), expected: 'the text that is signed' },
    ),
    ...tryFunction('poll.query', poll?.query, [toSample(SAMPLE_JOB)], judgeQuery),
    ...tryFunction('poll.body', poll?.body, [toSample(SAMPLE_JOB)], judgeBody),
    ...tryFunction('poll.read', poll?.read, polls, judgeJob),
    ...tryHeaders(rate),
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
  // Together they say what is looked up.
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
        ? /^(?:person|company|bulk|poll)/.test(place)
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

const resultBodies = (definition: ServiceDefinition): Sample[] => {
  const record = sampleRecord(definition, 'person')
  return [...BODIES, toSample({ results: [record] }), toSample([record])]
}

/** Answers that hold a record, an error, a job or results. */
const bulkAnswers = (definition: ServiceDefinition): Sample[] => [
  ...sampleAnswers(definition, 'person'),
  ...resultBodies(definition).map(({ text, arguments: [body] }) => sampleAnswer(text, 200, body)),
]

const sampleBulk = ({ bulk, webhook }: ServiceDefinition): object => ({
  emails: SAMPLE_EMAILS,
  webhookUrl:
    webhook === undefined || bulk?.results === 'answer' || bulk?.results === 'poll'
      ? null
      : 'https://fillrate.example/webhooks/enrichment/JOB',
})

const judgeBody: Judge = (result) => {
  if (result === undefined) return { found: 'nothing', expected: 'a body, sent as JSON' }
  return findPlaceholder(result)
}

const judgeQuery: Judge = (result) => {
  if (!isObject(result)) return { found: describe(result), expected: 'an object of names and values' }
  const nested = Object.entries(result).find(([, value]) => typeof value === 'object')
  if (nested !== undefined)
    return {
      found: `${quoteText(nested[0])} is ${describe(nested[1])}`,
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

/** Whether something of each input is sent. Names may be cut, and case may change. */
const namesInputs =
  (values: readonly unknown[]): Judge =>
  (result) => {
    const sent = decode(JSON.stringify(result) ?? '').toLowerCase()
    const missing = values.find(
      (value) =>
        !String(value)
          .toLowerCase()
          .split(' ')
          .some((word) => sent.includes(word)),
    )
    return missing === undefined
      ? findPlaceholder(result)
      : {
          found: `a request without ${quoteText(String(missing))}`,
          expected: 'a request that says what is looked up',
        }
  }

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const judgeReading: Judge = (result) => {
  if (result === undefined) return null
  const wrong = judgeOutcome(result, OUTCOMES.lookup)
  if (wrong !== null || !isObject(result) || result['outcome'] !== 'found') return wrong
  const { record, confidence } = result
  if (!isObject(record)) return { found: `a record that is ${describe(record)}`, expected: 'an object' }
  const isConfidence =
    confidence === null || (typeof confidence === 'number' && confidence >= 0 && confidence <= 1)
  return isConfidence
    ? null
    : {
        found: `a confidence of ${describe(confidence)}`,
        expected: 'a number from 0 to 1, or null if the service sends none',
      }
}

const judgeJob: Judge = (result, sample) => {
  if (result === undefined) return null
  const wrong = judgeOutcome(result, OUTCOMES.poll)
  return wrong ?? judgeResults(result as JsonObject, sample)
}

const judgeBulk: Judge = (result, sample) => {
  if (result === undefined) return null
  const wrong = judgeOutcome(result, OUTCOMES.bulk)
  if (wrong !== null) return wrong
  const { outcome, jobId } = result as JsonObject
  if (outcome === 'accepted' && jobId !== null && typeof jobId !== 'string')
    return {
      found: `a jobId that is ${describe(jobId)}`,
      expected: 'a text, or null if the service sends none',
    }
  return judgeResults(result as JsonObject, sample)
}

const judgeResults = ({ outcome, delivery }: JsonObject, sample: Sample): ReturnType<Judge> =>
  outcome === 'results' ? judgeDelivery(delivery, sample) : null

function judgeOutcome(result: unknown, outcomes: readonly string[]): ReturnType<Judge> {
  const outcome = isObject(result) ? result['outcome'] : undefined
  if (typeof outcome === 'string' && outcomes.includes(outcome)) return null
  const expected = `undefined, or an object whose outcome is ${oneOf(outcomes)}`
  if (typeof outcome !== 'string') return { found: describe(result), expected }
  return { found: `the outcome ${quoteText(outcome)}`, expected: didYouMean(outcome, outcomes) ?? expected }
}

const judgeDelivery: Judge = (result) =>
  isObject(result) && Object.hasOwn(result, 'results')
    ? null
    : { found: describe(result), expected: 'an object with `results`: { results: [{ request_id, data }] }' }

function tryHeaders(rate: ServiceDefinition['rate']): CheckedProblem[] {
  if (typeof rate?.headers !== 'function') return []
  const headers = createSampleHeaders()
  const sample: Sample = { text: 'headers', arguments: [headers.values], headers }
  return tryFunction('rate.headers', rate.headers as (...values: never[]) => unknown, [sample], (result) => {
    const expected = `an object with ${oneOf(USUAL_RATE_HEADERS)}`
    if (!isObject(result)) return { found: describe(result), expected }
    const unknown = Object.keys(result).filter((name) => !USUAL_RATE_HEADERS.includes(name))
    // It may return all headers, with the usual ones among them.
    return unknown.length > 0 && unknown.length === Object.keys(result).length
      ? { found: quoteText(unknown[0] ?? ''), expected }
      : null
  })
}

/** A value in a message: short, and never more than its kind where it is large. */
function describe(value: unknown): string {
  if (Array.isArray(value)) return 'a list'
  if (isObject(value)) return 'an object'
  return typeof value === 'function' ? 'a function' : shorten(String(JSON.stringify(value) ?? value), 40)
}
