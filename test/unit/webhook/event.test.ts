import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { parseEvent, parseResult } from '../../../src/webhook/event.ts'
import type { WebhookEvent } from '../../../src/webhook/event.ts'

const parse = (value: unknown): ReturnType<typeof parseEvent> =>
  parseEvent(Buffer.from(JSON.stringify(value)))

const eventOf = (value: unknown): WebhookEvent => {
  const parsed = typeof value === 'string' ? parseEvent(Buffer.from(value)) : parse(value)
  if (!parsed.ok) throw new Error(parsed.reason)
  return parsed.event
}

describe('parseEvent', () => {
  test('reads a delivery as the service documents it', () => {
    const data = { email: 'a@x.example', confidence: 0.9 }
    const raw = { request_id: 'r1', data, took_ms: 12 }
    expect(parse({ event_id: 'e1', job_id: 'j1', status: 'completed', results: [raw], more: true })).toEqual({
      ok: true,
      event: {
        eventId: 'e1',
        jobId: 'j1',
        status: 'completed',
        results: [{ requestId: 'r1', index: null, data, raw }],
      },
    })
  })

  test.each([
    ['COMPLETED', 'completed'],
    [' Failed ', 'failed'],
    ['partially_completed', 'partially_completed'],
    [undefined, null],
    [3, null],
  ])('the status %j is %j', (status, read) => {
    expect(eventOf({ event_id: 'e1', status }).status).toBe(read)
  })

  test('reads numbers as identifiers, exactly as written', () => {
    const event = eventOf(
      '{"event_id":12345678901234567890,"job_id":7,"results":[{"request_id":12345678901234567891,"data":null}]}',
    )
    expect(event).toMatchObject({ eventId: '12345678901234567890', jobId: '7' })
    expect(event.results[0]?.requestId).toBe('12345678901234567891')
  })

  test.each([[undefined], [null], [[]], [{}]])('reads %j as no results', (results) => {
    expect(eventOf({ event_id: 'e1', results }).results).toEqual([])
  })

  test('reads a map of results by identifier as a list', () => {
    const results = { r1: { confidence: 1 }, r2: { data: null, request_id: 'r2' }, r3: null }
    expect(eventOf({ event_id: 'e1', results }).results).toMatchObject([
      { requestId: 'r1', data: { confidence: 1 } },
      { requestId: 'r2', data: null },
      { requestId: 'r3', data: null },
    ])
  })

  test.each([null, 7, 'text', [[1]], true])('keeps an item %j without an identifier', (item) => {
    expect(eventOf({ event_id: 'e1', results: [item] }).results).toEqual([
      { requestId: null, index: null, data: null, raw: item },
    ])
  })

  test('reads data under its common names, or the item itself', () => {
    const record = { title: 'CTO', confidence: 1 }
    const results = [
      { request_id: 'r1', person: record },
      { requestId: 2, result: record },
      { request_id: 'r3', ...record },
      { request_id: 'r4' },
      { request_id: 'r5', data: {}, error: 'timeout' },
    ]
    expect(
      eventOf({ event_id: 'e1', results }).results.map(({ requestId, data }) => [requestId, data]),
    ).toEqual([
      ['r1', record],
      ['2', record],
      ['r3', results[2]],
      ['r4', null],
      ['r5', results[4]],
    ])
  })

  test('removes what cannot be stored from strings', () => {
    const event = eventOf(
      '{"event_id":"e1","job_id":"j\\u00001","results":[{"data":{"title":"C\\ud800TO"}}]}',
    )
    expect(event.jobId).toBe('j1')
    expect(event.results[0]?.data).toEqual({ title: 'CTO' })
  })

  test.each<[string, string | Buffer, string, string | null]>([
    ['invalid UTF-8', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d]), 'the body is not UTF-8', null],
    ['nothing', '', 'the body is empty', null],
    ['no JSON', '{"event_id":"e1"', 'the body is not JSON', null],
    ['a list', '[{"event_id":"e1"}]', 'the body is JSON, but not an object', null],
    ['null', 'null', 'the body is JSON, but not an object', null],
    [
      'deep nesting',
      `{"event_id":"e1","a":${'['.repeat(1e6)}`,
      'the body is nested more than 100 levels deep',
      null,
    ],
    ['no event_id', '{"job_id":"j1"}', 'there is no event_id', null],
    ['an empty event_id', '{"event_id":" "}', 'there is no event_id', null],
    ['an inherited event_id', '{"__proto__":{"event_id":"e1"}}', 'there is no event_id', null],
    ['an object as event_id', '{"event_id":{}}', 'there is no event_id', null],
    [
      'a long event_id',
      `{"event_id":"${'e'.repeat(513)}"}`,
      'the event_id is longer than 512 characters',
      null,
    ],
    ['NUL in the event_id', '{"event_id":"e\\u0000"}', 'the event_id holds a NUL or half a character', null],
    ['a text as results', '{"event_id":"e1","results":"a@x.example"}', 'results is not a list', 'e1'],
    [
      'a flood',
      `{"event_id":"e1","results":[${'0,'.repeat(10_000)}0]}`,
      'there are more than 10000 results',
      'e1',
    ],
  ])('%s is not ok', (_, body, reason, eventId) => {
    expect(parseEvent(Buffer.from(body))).toEqual({ ok: false, reason, eventId })
  })

  test('fails for no body, and never quotes it in a reason', () => {
    const part = fc.oneof(fc.json(), fc.constantFrom('{', '}', '"', 'event_id', '\\u0000', 'personal'))
    fc.assert(
      fc.property(
        fc.oneof(
          fc.uint8Array(),
          fc.array(part).map((parts) => Buffer.from(parts.join(''))),
        ),
        (body) => {
          const parsed = parseEvent(Buffer.from(body))
          expect(parsed.ok ? '' : parsed.reason).not.toContain('personal')
        },
      ),
    )
  })

  test('keeps every item of a list unchanged and in order', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue({ maxDepth: 3 }), { maxLength: 20 }), (results) => {
        const wellFormed: unknown = JSON.parse(JSON.stringify(results))
        fc.pre(!/\\u|\d{16}|e[+-]?\d{3}/i.test(JSON.stringify(results)))
        expect(eventOf({ event_id: 'e1', results }).results.map(({ raw }) => raw)).toEqual(wellFormed)
      }),
    )
  })
})

test('a result is read as the answer to a single lookup is, and a miss may still name its email', () => {
  const person = { email: 'A@x.example', title: 'CTO', confidence: 0.7 }
  const parse = (data: unknown) => parseResult(data, 'person', BUILT_IN_SERVICE)
  const none = { found: false, record: null, confidence: null, email: null, fault: null }
  const found = { found: true, record: person, confidence: 0.7, email: 'A@x.example', fault: null }
  expect(parse({ data: { person } })).toEqual(found)
  expect([undefined, {}, '', { title: 'CTO' }, { email: 7 }].map(parse)).toEqual(
    Array.from({ length: 5 }, () => none),
  )
  expect(parse({ person: { email: 'a@x.example' } })).toEqual({ ...none, email: 'a@x.example' })
  expect(parse('a text')).toEqual({ ...none, fault: expect.any(String) })
})
