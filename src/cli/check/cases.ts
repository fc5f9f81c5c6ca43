import {
  type DeliveryCase,
  PLACEHOLDER_KEY,
  runServiceCases,
  type ServiceCase,
} from '../../actions/service-cases.ts'
import type { Environment } from '../../config/environment.ts'
import { isObject } from '../../domain/json.ts'
import { createRecordReader, toRecordShape } from '../../domain/record.ts'
import type { Service } from '../../domain/service/service.ts'
import { pluralize } from '../../util/format.ts'
import { quoteText } from '../../util/text.ts'
import { type CheckedProblem, createMixedFinding, type Finding } from './finding.ts'
import { findMistakes } from './mistakes.ts'
import { tryFunctions } from './trial.ts'

/**
 * Checks a description beyond its form: what contradicts itself, what its functions do with made-up inputs, and whether its
 * cases come out as they say. Sends nothing.
 */
export async function checkDescribed(
  service: Service,
  { baseUrl }: Pick<Environment, 'baseUrl'>,
  cases: readonly unknown[],
): Promise<Finding> {
  const { definition } = service
  const problems = [
    ...findMistakes(definition, baseUrl),
    ...tryFunctions(definition),
    ...(await tryCases(service, cases as readonly (ServiceCase | DeliveryCase)[])),
  ]
  const text = `${service.name}, ${cases.length === 0 ? 'without cases' : `${pluralize(cases.length, 'case')} as expected`}`
  const isWarning = ({ verdict }: CheckedProblem): boolean => verdict === 'warning'
  return createMixedFinding(
    'description',
    text,
    problems.filter((one) => !isWarning(one)),
    problems.filter(isWarning),
  )
}

async function tryCases(
  service: Service,
  cases: readonly (ServiceCase | DeliveryCase)[],
): Promise<CheckedProblem[]> {
  try {
    const reports = await runServiceCases(service.definition, cases)
    return reports.flatMap(({ name, mismatches, understood }, n) => {
      const one = cases[n]
      if (mismatches.length === 0 || one === undefined) return []
      const missing =
        'answer' in one && understood['outcome'] === 'not_found' && !('domain' in one.input)
          ? findMissingConfidence(service, one.answer.body)
          : null
      const place = `cases: ${name}`
      return [
        missing === null
          ? {
              place,
              found: mismatches.join('; ').replaceAll(PLACEHOLDER_KEY, '•••'),
              expected: 'what the case expects',
              todo: null,
            }
          : { ...missing, found: `${missing.found}, in the case ${quoteText(name)}` },
      ]
    })
  } catch (error) {
    const found = error instanceof Error ? error.message : String(error)
    return [{ place: 'cases', found, expected: 'a list of ServiceCase and DeliveryCase', todo: null }]
  }
}

const LIKELY_CONFIDENCE = /score|likelihood|confidence|probability|certainty|quality/i

/** What is wrong if a person's answer is a miss only because it has no confidence. Null: it is a miss for another reason. */
export function findMissingConfidence(service: Service, body: unknown): CheckedProblem | null {
  const place = service.definition.person?.record ?? {}
  const { confidence = 'confidence' } = place
  if (confidence === null) return null
  const shape = toRecordShape('person', Object.keys(service.shapes.person), { ...place, confidence: null })
  if (createRecordReader(shape)(body).outcome !== 'found') return null
  const likely = findNumbers(body, 3).find((field) => LIKELY_CONFIDENCE.test(field))
  return {
    place: 'service.person.record.confidence',
    found: `a record without the field ${quoteText(confidence)}, which counts as no match`,
    expected: 'the field of the confidence; null if the service sends none',
    todo: likely === undefined ? null : `Did you mean ${quoteText(likely)}?`,
    verdict: 'error',
  }
}

/** The fields with a number in a value, the outer ones first. */
function findNumbers(value: unknown, depth: number): string[] {
  if (!isObject(value) || depth === 0) return []
  const entries = Object.entries(value)
  return [
    ...entries.flatMap(([name, one]) => (typeof one === 'number' ? [name] : [])),
    ...entries.flatMap(([, one]) => findNumbers(one, depth - 1)),
  ]
}
