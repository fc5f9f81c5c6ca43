import { trace } from '@opentelemetry/api'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { afterAll, expect, test } from 'vitest'
import { traceCall } from '../../../src/util/trace.ts'

afterAll(() => trace.disable())

const call = (): Promise<boolean> =>
  traceCall('fillrate.look_up', { 'fillrate.lookup.id': 7 }, (span) => {
    span.setAttributes({ 'http.request.method': 'POST' })
    return Promise.resolve(span.isRecording())
  })

test('without an SDK a call is made with a span that records nothing', async () => {
  expect(await call()).toBe(false)
  await expect(traceCall('fillrate.look_up', {}, () => Promise.reject(new Error('lost')))).rejects.toThrow(
    'lost',
  )
})

test('an SDK that is registered later records the calls from then on, until it is removed', async () => {
  const exporter = new InMemorySpanExporter()
  expect(await call()).toBe(false)
  trace.setGlobalTracerProvider(
    new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }),
  )
  expect(await call()).toBe(true)
  trace.disable()
  expect(await call()).toBe(false)
  expect(exporter.getFinishedSpans().map(({ name, attributes }) => [name, attributes])).toEqual([
    ['fillrate.look_up', { 'fillrate.lookup.id': 7, 'http.request.method': 'POST' }],
  ])
})
