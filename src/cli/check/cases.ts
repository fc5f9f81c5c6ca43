import {
  type DeliveryCase,
  PLACEHOLDER_KEY,
  runServiceCases,
  type ServiceCase,
} from '../../actions/service-cases.ts'
import type { Service } from '../../domain/service/service.ts'
import { pluralize } from '../../util/format.ts'
import { type CheckedProblem, createFailedFinding, createFinding, type Finding } from './finding.ts'
import { findSecrets } from './secrets.ts'

/**
 * Checks a description beyond its form: whether it holds a key, and whether its cases come out as they say. Says so
 * where it has none. Sends nothing.
 * @param cases null: the description is in the configuration itself, which exports none
 */
export async function checkDescribed(
  service: Service,
  cases: readonly (ServiceCase | DeliveryCase)[] | null,
): Promise<Finding> {
  const { name, definition } = service
  const problems = [...findSecrets(definition)]
  for (const one of cases ?? []) {
    const wrong = await tryCase(service, one)
    if (wrong !== null) problems.push(wrong)
  }
  if (problems.length > 0) return createFailedFinding('description', ...problems)
  if (cases === null) return createFinding('description', 'ok', name)
  if (cases.length > 0)
    return createFinding('description', 'ok', `${name}, ${pluralize(cases.length, 'case')}`)
  return createFinding(
    'description',
    'warning',
    `${name}, without cases: nothing shows that its answers are read right`,
    {
      todo: 'Export `cases` from its module: answers from the documentation of the service, and what each means.',
    },
  )
}

/** What is wrong with a case; null: it comes out as it says. */
async function tryCase(service: Service, one: ServiceCase | DeliveryCase): Promise<CheckedProblem | null> {
  const place = `cases: ${one.name}`
  const expected = 'what the case expects'
  try {
    const [report] = await runServiceCases(service.definition, [one])
    if (report === undefined || report.mismatches.length === 0) return null
    const found = report.mismatches.join('; ').replaceAll(PLACEHOLDER_KEY, '•••')
    return { place, found, expected, todo: null }
  } catch (error) {
    const found = error instanceof Error ? `${error.name}: ${error.message}` : String(error)
    return { place, found, expected, todo: null }
  }
}
