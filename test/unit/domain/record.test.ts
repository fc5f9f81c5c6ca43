import fc from 'fast-check'
import { afterAnswer } from '../../../src/domain/row.ts'
import { describe, expect, test } from 'vitest'
import { createRecordReader, readConfidence, toRecordShape } from '../../../src/domain/record.ts'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'

const { person: readPerson, company: readCompany } = BUILT_IN_SERVICE.readers

const person = { id: 'p1', name: { full: 'Ada' }, title: 'Internal Auditor', confidence: 0.8 }
const company = { id: 'c1', name: 'Acme', industry: 'Software', employee_count: '250' }

const foundPerson = { outcome: 'found', record: person, confidence: 0.8 }
const foundCompany = { outcome: 'found', record: company, confidence: null }
const notFound = { outcome: 'not_found' }

describe('readPerson', () => {
  test.each([
    person,
    { data: person },
    { person },
    { result: person },
    { record: person },
    { data: { person } },
    { success: true, data: person, error: null, errors: [] },
    { status: 'success', code: 200, data: person },
    { results: [person] },
    { data: [{ error: 'not found' }, person] },
  ])('finds the record in %j', (value) => {
    expect(readPerson(value)).toEqual(foundPerson)
  })

  test('finds the first record of a list', () => {
    expect(readPerson([{ data: null }, person, { ...person, id: 'p2' }])).toEqual(foundPerson)
    expect(readCompany([company])).toEqual(foundCompany)
  })

  test('an empty list without a wrapper is neither a record nor a miss', () => {
    expect(readPerson([])).toMatchObject({ outcome: 'unreadable' })
  })

  test('a confidence beside the record applies to it', () => {
    const { confidence, ...record } = person
    expect(readPerson({ confidence, data: record })).toEqual({ outcome: 'found', record, confidence })
  })

  test('a record with a field that looks like a wrapper is the record', () => {
    const odd = { ...person, data: { source: 'x' }, result: 'ok' }
    expect(readPerson(odd)).toEqual({ outcome: 'found', record: odd, confidence: 0.8 })
  })

  test.each(['low', -0.3, 250, [], {}, true])(
    'a person whose confidence is %j is below every bound, and is never written at it',
    (confidence) => {
      const reading = readPerson({ ...person, confidence })
      expect(reading).toMatchObject({ outcome: 'found', confidence: 0 })
      expect(afterAnswer({ state: 'found', reason: null, confidence: 0 }, 0.1)?.state).toBe(
        'below_confidence',
      )
    },
  )

  test.each([
    { data: null },
    { person: null, credits: 4 },
    { data: { person: null } },
    { data: { email: 'a@x.example' } },
    { data: { unknown: 1 } },
    { data: { ...person, confidence: null } },
    { success: true, data: null, confidence: 0 },
    { id: 'p1', email: 'a@x.example', title: 'CTO' },
    { id: null, title: null },
    { success: false, message: 'No match found' },
    { error: { message: 'Person not found' } },
    { error: 'not_found', email: 'a@x.example' },
    { status: 404, message: 'nothing' },
    { found: false, data: person },
    { message: 'no results', email: 'a@x.example' },
  ])('%j is a miss', (value) => {
    expect(readPerson(value)).toEqual(notFound)
  })

  test.each([
    undefined,
    null,
    '',
    {},
    'a text',
    7,
    true,
    { unknown: 1 },
    { success: false },
    { success: false, data: person },
    { ok: false, data: null },
    { error: 'internal', email: 'a@x.example' },
    { success: false, code: '429', message: 'no results' },
    { error: { status: 401, message: 'account not found' } },
    { message: 'No data: quota exceeded', data: null },
    { name: 'InternalError', message: 'something broke' },
    { data: 'a text' },
  ])('%j is neither a record nor a miss', (value) => {
    expect(readPerson(value)).toEqual({ outcome: 'unreadable', reason: expect.any(String) })
  })

  test('inherited properties are not fields', () => {
    expect(readPerson(Object.create(person))).toMatchObject({ outcome: 'unreadable' })
    expect(readPerson(JSON.parse('{"__proto__":{"confidence":1,"title":"CTO"}}'))).toMatchObject({
      outcome: 'unreadable',
    })
  })

  test('fails for no JSON, and never quotes it in a reason', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.stringMatching(/^[a-z]{12}$/), (value, mark) => {
        const reading = readPerson({ data: value, mark, error: mark })
        expect(reading.outcome === 'unreadable' ? reading.reason : '').not.toContain(mark)
      }),
    )
  })
})

describe('readCompany', () => {
  test.each([company, { data: company }, { company }, { result: { company } }])(
    'finds the record in %j',
    (value) => {
      expect(readCompany(value)).toEqual(foundCompany)
    },
  )

  test('a confidence is read where there is one', () => {
    expect(readCompany({ ...company, confidence: 1 })).toMatchObject({ outcome: 'found', confidence: 1 })
  })

  test('error words in a record do not make it a fault', () => {
    const limited = { ...company, type: 'limited', status: 'failed' }
    expect(readCompany(limited)).toMatchObject({ outcome: 'found', record: limited })
  })

  test.each([
    { company: null },
    { data: {} },
    { name: null, industry: null },
    { error: 'company not found' },
  ])('%j is a miss', (value) => {
    expect(readCompany(value)).toEqual(notFound)
  })

  test.each([
    null,
    {},
    { unknown: 1 },
    { message: 'try again later' },
    { name: 'TypeError', message: 'x is undefined' },
    { domain: 'acme.example', error: 'timeout' },
  ])('%j is neither a record nor a miss', (value) => {
    expect(readCompany(value)).toMatchObject({ outcome: 'unreadable' })
  })
})

describe('readConfidence', () => {
  test.each([
    [0, 0],
    [1, 1],
    [0.5, 0.5],
    ['0.75', 0.75],
    [87, 0.87],
    [100, 1],
    [-0.1, null],
    [101, null],
    [Number.NaN, null],
    ['', null],
    ['high', null],
    [null, null],
    [true, null],
    [[0.5], null],
  ])('%j is %j', (value, confidence) => {
    expect(readConfidence(value)).toBe(confidence)
  })
})

describe('a person of a service without a confidence', () => {
  const read = createRecordReader(
    toRecordShape(
      'person',
      ['full_name', 'title', 'job.title', 'job.company.name', 'company.name', 'organization_id'],
      {
        wrappers: ['person'],
        confidence: null,
      },
    ),
  )

  test.each([
    { company: { name: 'Engines' } },
    { person: { company: { name: 'Engines' }, organization_id: 'o1' } },
    { id: null, name: '', title: null, company: { name: 'Engines' } },
    {
      title: 'An***',
      email: { email: 'a***@engines.example', revealed: false },
      company: { name: 'Engines' },
    },
    { job: { title: '', company: { name: 'Engines' } } },
  ])('is not found in its employer, nor in masks: %j', (value) => {
    expect(read(value)).toEqual(notFound)
  })

  test.each([
    { title: 'Analyst', company: { name: 'Engines' } },
    { id: 7 },
    { job: { title: 'Analyst', company: { name: 'Engines' } } },
  ])('is found by anything else: %j', (value) => {
    expect(read(value)).toEqual({ outcome: 'found', record: value, confidence: 1 })
  })
})
