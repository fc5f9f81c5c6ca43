import {
  type DeliveryCase,
  isJob,
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
  const problems = [...findMistakes(definition, baseUrl), ...tryFunctions(definition)]
  for (const one of cases as readonly (ServiceCase | DeliveryCase)[]) {
    const wrong = await tryCase(service, one)
    if (wrong !== null) problems.push(wrong)
  }
  const tried = cases.length === 0 ? '' : `, and ${pluralize(cases.length, 'case')}`
  const text = `${service.name}, tried with made-up inputs${tried}`
  const isWarning = ({ verdict }: CheckedProblem): boolean => verdict === 'warning'
  return createMixedFinding(
    'description',
    text,
    problems.filter((one) => !isWarning(one)),
    problems.filter(isWarning),
  )
}

/** What is wrong with a case; null: it comes out as it says. */
async function tryCase(service: Service, one: ServiceCase | DeliveryCase): Promise<CheckedProblem | null> {
  const place = `cases: ${one.name}`
  const expected = 'what the case expects'
  try {
    const [report] = await runServiceCases(service.definition, [one])
    if (report === undefined) return null
    const { mismatches, understood } = report
    if (mismatches.length === 0) return 'answer' in one ? findUnreserved(service, one, understood) : null
    const missing =
      'answer' in one && understood['outcome'] === 'not_found' && !('domain' in one.input)
        ? findMissingConfidence(service, one.answer.body)
        : null
    if (missing !== null) return { ...missing, found: `${missing.found}, in the case ${quoteText(one.name)}` }
    return { place, found: mismatches.join('; ').replaceAll(PLACEHOLDER_KEY, '•••'), expected, todo: null }
  } catch (error) {
    const found = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
    return { place, found, expected, todo: null }
  }
}

/** A lookup that costs more than is reserved for it exceeds its budget. */
function findUnreserved(
  { credits: { most } }: Service,
  { name, input }: ServiceCase,
  { credits }: Readonly<Record<string, unknown>>,
): CheckedProblem | null {
  const reserved = Math.max(...Object.values(most))
  if (isJob(input) || 'jobId' in input || typeof credits !== 'number' || credits <= reserved) return null
  return {
    place: 'service.credits',
    found: `${credits} credits in the case ${quoteText(name)}, where a lookup reserves ${reserved}`,
    expected: 'the most that a lookup may cost: a budget is exceeded by what is stated above it',
    todo: null,
    verdict: 'warning',
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
