import { expect, test } from 'vitest'
import template from '../../../examples/services/template.ts'
import type { ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { diffForms, toDescriptionForm } from '../../../src/domain/service/description-form.ts'
import { createService } from '../../../src/domain/service/service.ts'

const formOf = (definition: ServiceDefinition) => toDescriptionForm(createService(definition))
const before = formOf(template)
const changed = (more: Partial<ServiceDefinition>) => diffForms(before, formOf({ ...template, ...more }))

test('names the parts of a description that differ, as far as they shape a record', () => {
  const { person, bulk } = template
  expect(changed({})).toEqual([])
  expect(changed({ fields: { person: { job_title: 'text' } } })).toEqual(['fields.person'])
  expect(changed({ credits: { hit: 2, miss: 0 } })).toEqual(['credits'])
  expect(changed({ person: { ...person!, record: { confidence: null } } })).toEqual(['person.record'])
  expect(changed({ person: { ...person!, path: '/v2/people' } })).toEqual(['person.path'])
  expect(changed({ person: { ...person!, read: () => ({ outcome: 'not_found' }) } })).toEqual(['person.read'])
  expect(changed({ person: { ...person!, method: 'POST' } })).toEqual(['person.method'])
  expect(changed({ statuses: {} })).toEqual(['statuses'])
  expect(changed({ company: { path: '/companies' } })).toEqual(['company.path'])
  // How it is reached, and how fast.
  const { bulk: _, ...others } = template
  expect(
    changed({
      name: 'another name',
      auth: 'basic',
      headers: { accept: 'application/json' },
      rate: { limit: '10 per second' },
      bulk: { ...bulk!, size: 3 },
    }),
  ).toEqual([])
  expect(diffForms(before, formOf(others))).toContain('bulk.read')
})

test('compares functions by their text, and objects whatever the order of their keys', () => {
  const withRead = (read: NonNullable<ServiceDefinition['person']>['read']) =>
    formOf({ name: 'a', person: { path: '/', read: read! } })
  const one = withRead(({ status }) => (status === 200 ? undefined : { outcome: 'not_found' }))
  // prettier-ignore
  const two = withRead(({   status }) => (status === 200 ? undefined : {
    outcome: 'not_found' }))
  expect(diffForms(one, two)).toEqual([])
  expect(
    diffForms(
      one,
      withRead(({ status }) => (status === 201 ? undefined : { outcome: 'not_found' })),
    ),
  ).toEqual(['person.read'])
  const ordered = (fields: object) =>
    formOf({ name: 'a', person: { path: '/' }, fields } as ServiceDefinition)
  expect(
    diffForms(
      ordered({ person: { a: 'text', b: 'number' } }),
      ordered({ person: { b: 'number', a: 'text' } }),
    ),
  ).toEqual([])
})

test('the built-in description has no form, whichever version of the program it is of', () => {
  expect(toDescriptionForm(BUILT_IN_SERVICE)).toEqual({})
  expect(diffForms({}, before)).toContain('person.path')
})
