import { trace } from '@opentelemetry/api'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { useHarness } from '../../support/harness.ts'

// The way of a row, as an SDK that the user registers sees it.

const exporter = new InMemorySpanExporter()

const harness = useHarness({
  config: { ...crmConfig, bulk: { minimum: 20 } },
  sandbox: { webhookSecret: 'a-webhook-secret' },
  prepare: ({ pool }) => createCrm(pool, 60),
})
beforeAll(() => {
  trace.setGlobalTracerProvider(
    new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }),
  )
})
afterAll(() => trace.disable())

/** The spans of a name, with their attributes. */
const spansOf = (name: string) =>
  exporter.getFinishedSpans().flatMap((span) => (span.name === name ? [span.attributes] : []))
const idsOf = (name: string, key: string): unknown[] =>
  spansOf(name).flatMap((attributes) => {
    const value = attributes[key]
    return Array.isArray(value) ? value : value === undefined ? [] : [value]
  })

test('a row can be followed by its lookup, in bulk by its job too, and no address is in any span', async () => {
  const report = await harness.run({ route: 'bulk', limit: 30 })
  expect(report.jobs.completed).toBeGreaterThan(0)
  const synchronous = await harness.run({ route: 'sync' })
  expect(synchronous.status).toBe('completed')

  const picked = new Set(idsOf('fillrate.pick', 'fillrate.lookup.ids'))
  expect(picked.size).toBeGreaterThan(20)
  const answered = [
    ...idsOf('fillrate.settle', 'fillrate.lookup.ids'),
    ...idsOf('fillrate.look_up', 'fillrate.lookup.id'),
  ]
  expect(answered.filter((id) => !picked.has(id))).toEqual([])
  const written = idsOf('fillrate.write_back', 'fillrate.lookup.ids')
  expect(written.length).toBeGreaterThan(20)
  expect(written.filter((id) => !answered.includes(id))).toEqual([])

  const submitted = idsOf('fillrate.submit', 'fillrate.job.key')
  expect(submitted.length).toBe(report.jobs.submitted)
  expect(new Set(idsOf('fillrate.receive', 'fillrate.job.key'))).toEqual(new Set(submitted))
  expect(new Set(idsOf('fillrate.settle', 'fillrate.job.keys'))).toEqual(new Set(submitted))

  expect(spansOf('fillrate.look_up')[0]).toMatchObject({
    'http.request.method': 'POST',
    'url.template': '/v1/person/enrich',
    'http.response.status_code': expect.any(Number),
    'fillrate.lookup.attempt': 1,
  })
  const everything = JSON.stringify(
    exporter
      .getFinishedSpans()
      .map(({ name, attributes, status, events }) => [name, attributes, status, events]),
  )
  expect(everything).not.toContain('@')
})
