import { beforeAll, expect, test } from 'vitest'
import { createStatusReport } from '../../../src/actions/status.ts'
import { useHarness } from '../../support/harness.ts'
import { personSource, withPeople } from '../../support/crm.ts'

const services = useHarness({
  config: {
    services: { acme: {}, beta: {} },
    sources: {
      people: personSource('people', {
        title: { acme: 'title' },
        phone: 'phone',
        level: { beta: 'seniority' },
      }),
    },
    budget: 'unlimited',
  },
  services: { acme: { notFoundShare: 0.5, seed: 1 }, beta: { notFoundShare: 0, seed: 2 } },
  prepare: withPeople(40, 'phone text, level text'),
})
beforeAll(async () => {
  await services.run({ route: 'sync' })
})

test('fill rates are those of the columns of all services, whichever of them has counted', async () => {
  const [counted] = await services.query(
    'select count(title)::int as title, count(phone)::int as phone, count(level)::int as level from people',
  )
  const app = await services.open()
  const { fill_rate: rates } = await createStatusReport(services.database.db, app.config)
  await app.close()
  expect(rates['people']).toMatchObject({
    eligible: 40,
    columns: ['title', 'phone', 'level'].map((column) => ({
      column,
      filled: (counted as Record<string, number>)[column],
    })),
  })
})
