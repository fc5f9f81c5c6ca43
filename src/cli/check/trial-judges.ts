import { isObject, type JsonObject, listItems } from '../../domain/json.ts'
import { areCredits } from '../../domain/service/credits.ts'
import { OUTCOMES } from '../../domain/service/messages.ts'
import { didYouMean, oneOf, quoteText, shorten } from '../../util/text.ts'
import type { CheckedProblem } from './finding.ts'
import type { Sample } from './trial-samples.ts'

/** What is wrong with a result; null: nothing. */
export type Judge = (
  result: unknown,
  sample: Sample,
) => (Pick<CheckedProblem, 'found' | 'expected'> & Pick<Partial<CheckedProblem>, 'verdict'>) | null

export const judgeReading: Judge = (result) => {
  if (result === undefined) return null
  const wrong =
    judgeOutcome(result, OUTCOMES.person) ?? judgeCredits('credits', (result as JsonObject)['credits'])
  if (wrong !== null || !isObject(result) || result['outcome'] !== 'found') return wrong
  const { record, confidence } = result
  if (!isObject(record)) return { found: `a record that is ${describeResult(record)}`, expected: 'an object' }
  const isConfidence =
    confidence === null || (typeof confidence === 'number' && confidence >= 0 && confidence <= 1)
  return isConfidence
    ? null
    : {
        found: `a confidence of ${describeResult(confidence)}`,
        expected: 'a number from 0 to 1, or null if the service sends none',
      }
}

export const judgeJob: Judge = (result, sample) => {
  if (result === undefined) return null
  const wrong = judgeOutcome(result, OUTCOMES.poll)
  return wrong ?? judgeResults(result as JsonObject, sample)
}

export const judgeBulk: Judge = (result, sample) => {
  if (result === undefined) return null
  const wrong = judgeOutcome(result, OUTCOMES.bulk)
  if (wrong !== null) return wrong
  const { outcome, jobId } = result as JsonObject
  if (outcome === 'accepted' && jobId !== null && typeof jobId !== 'string')
    return {
      found: `a jobId that is ${describeResult(jobId)}`,
      expected: 'a text, or null if the service sends none',
    }
  return judgeResults(result as JsonObject, sample)
}

function judgeResults({ outcome, delivery, cursor }: JsonObject, sample: Sample): ReturnType<Judge> {
  if (outcome !== 'results' && outcome !== 'more') return null
  if (outcome === 'more' && (typeof cursor !== 'string' || cursor === ''))
    return {
      found: `a cursor that is ${describeResult(cursor)}`,
      expected: 'a text that the next poll is made with; the last page is `results`',
    }
  return judgeDelivery(delivery, sample)
}

function judgeCredits(what: string, credits: unknown): ReturnType<Judge> {
  return areCredits(credits)
    ? null
    : {
        found: `${what} of ${typeof credits === 'number' ? String(credits) : describeResult(credits)}`,
        expected: 'a number from 0, or null where the answer does not say what it cost',
      }
}

function judgeOutcome(result: unknown, outcomes: readonly string[]): ReturnType<Judge> {
  const outcome = isObject(result) ? result['outcome'] : undefined
  if (typeof outcome === 'string' && outcomes.includes(outcome)) return null
  const expected = `undefined, or an object whose outcome is ${oneOf(outcomes)}`
  if (typeof outcome !== 'string') return { found: describeResult(result), expected }
  return { found: `the outcome ${quoteText(outcome)}`, expected: didYouMean(outcome, outcomes) ?? expected }
}

export const judgeDelivery: Judge = (result) => {
  if (!isObject(result) || !Object.hasOwn(result, 'results'))
    return {
      found: describeResult(result),
      expected: 'an object with `results`: { results: [{ request_id, data }] }',
    }
  const { credits, results } = result
  const odd = listItems(results).find(
    (item) => isObject(item) && Object.hasOwn(item, 'data') && !areCredits(item['credits']),
  )
  return (
    judgeCredits('credits of the delivery', credits) ??
    (odd === undefined ? null : judgeCredits('credits of a result', (odd as JsonObject)['credits']))
  )
}

/** A value in a message: short, and never more than its kind where it is large. */
export function describeResult(value: unknown): string {
  if (Array.isArray(value)) return 'a list'
  if (isObject(value)) return 'an object'
  return typeof value === 'function' ? 'a function' : shorten(String(JSON.stringify(value) ?? value), 40)
}
