import { globSync } from 'node:fs'
import { resolve } from 'node:path'
import { expect, test } from 'vitest'
import type { DeliveryCase, ServiceCase } from '../../../src/actions/service-cases.ts'
import { checkDescribed } from '../../../src/cli/check/cases.ts'
import { parseService } from '../../../src/config/service.ts'

const files = globSync('examples/services/*.ts').toSorted()

test.each(files)('check finds nothing in %s', async (file) => {
  const { default: definition, cases } = (await import(resolve(file))) as {
    default: unknown
    cases: readonly (ServiceCase | DeliveryCase)[]
  }
  const { service, problems } = parseService({ definition, place: file })
  expect(problems).toEqual([])
  const finding = await checkDescribed(service!, { baseUrl: null }, cases)
  expect(finding.problems).toEqual([])
})

test('each of the services that a run can pay has cases for a match, a miss, too many calls and no credits', async () => {
  const wanted = ['not_found', 'rate_limited', 'out_of_credits']
  const lacking: string[] = []
  for (const file of files.filter((one) => !/template|apollo|fullenrich/.test(one))) {
    const { cases } = (await import(resolve(file))) as { cases: readonly (ServiceCase | DeliveryCase)[] }
    const outcomes = cases.flatMap(({ expect: expected }) => [
      ...('outcome' in expected ? [expected.outcome] : []),
      ...('results' in expected ? (expected.results ?? []).map(({ outcome }) => outcome) : []),
    ])
    for (const outcome of ['found', ...wanted])
      if (!outcomes.includes(outcome as never)) lacking.push(`${file}: ${outcome}`)
  }
  expect(lacking).toEqual([])
})
