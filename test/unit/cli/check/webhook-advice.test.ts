import apollo from '../../../../examples/services/apollo.ts'
import fullEnrich from '../../../../examples/services/fullenrich.ts'
import { expect, test } from 'vitest'
import { checkBulkSetup } from '../../../../src/cli/check/service.ts'
import { readEnvironment } from '../../../../src/config/environment.ts'
import type { ServiceDefinition } from '../../../../src/domain/service/adapter.ts'
import { createService } from '../../../../src/domain/service/service.ts'

const environment = readEnvironment({ FILLRATE_BASE_URL: 'https://api.example', FILLRATE_API_KEY: 'k' })
const checkBulk = (definition: ServiceDefinition) => checkBulkSetup(environment, createService(definition))
const WEBHOOK = /webhook|FILLRATE_PUBLIC_URL|secret/i

const { webhook: _, ...polled } = fullEnrich
const { bulk: __, ...single } = apollo

test.each([
  ['that answers at once', apollo],
  ['whose jobs are fetched', polled],
  [
    'whose jobs are fetched although it could deliver',
    { ...fullEnrich, bulk: { ...fullEnrich.bulk!, results: 'poll' as const } },
  ],
  ['without bulk calls', single],
])('a service %s is told nothing about webhooks', async (_, definition) => {
  const finding = await checkBulk(definition)
  expect(finding.verdict).toBe('ok')
  expect(`${finding.text} ${finding.todo}`).not.toMatch(WEBHOOK)
})

test('a service that delivers is told what is missing', async () => {
  expect((await checkBulk(fullEnrich)).todo).toMatch(WEBHOOK)
})
