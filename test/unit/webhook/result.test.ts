import { describe, expect, test } from 'vitest'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { parseResult } from '../../../src/webhook/event.ts'

const parse = (data: unknown) => parseResult(data, 'person', BUILT_IN_SERVICE)
const person = { email: 'A@x.example', title: 'CTO', confidence: 0.7 }
const none = { found: false, record: null, confidence: null, email: null, fault: null }

describe('parseResult', () => {
  test.each([person, { person }, { data: { person } }, { results: [person] }])(
    'finds the record in %j',
    (data) => {
      expect(parse(data)).toEqual({
        found: true,
        record: person,
        confidence: 0.7,
        email: 'A@x.example',
        fault: null,
      })
    },
  )

  test.each([undefined, null, {}, [[]], '', { title: 'CTO' }, { confidence: null }, { status: 404 }])(
    '%j is not found',
    (data) => {
      expect(parse(data)).toEqual(none)
    },
  )

  test('a miss may still name its email', () => {
    expect(parse({ person: { email: 'a@x.example' } })).toEqual({ ...none, email: 'a@x.example' })
    expect(parse({ email: 7 })).toEqual(none)
  })

  test.each([{ error: 'upstream timeout' }, { success: false }, { status: 503 }, 'a text', 5])(
    '%j is a fault of the service and no miss',
    (data) => {
      expect(parse(data)).toEqual({ ...none, fault: expect.any(String) })
    },
  )
})
