import { describe, expect, test } from 'vitest'
import { labelMeaning } from '../../../src/init/meanings.ts'
import { parseCodes } from '../../../src/init/introspect.ts'

describe('what a label says of a person', () => {
  test.each([
    ['Do Not Contact', 'objection'],
    ['DO_NOT_CONTACT', 'objection'],
    ['do-not-contact', 'objection'],
    ['Do not contact - written request', 'objection'],
    ['Widerspruch Art. 21', 'objection'],
    ['Einwilligung widerrufen', 'objection'],
    ['Unsubscribed', 'objection'],
    ['À supprimer', 'gone'],
    ['Archivée', 'gone'],
    ['Doublon', 'gone'],
    ['Left Company', 'gone'],
    ['verstorben', 'gone'],
    ['qa-test', 'test'],
    ['Pruebas', 'test'],
    ['Employee', 'staff'],
    ['Private individual, not in the trade', 'private'],
    ['household', 'private'],
    // How a call went, and what is only a state of use.
    ['No contact', null],
    ['not deleted', null],
    ['Active', null],
    ['Customer', null],
    ['New', null],
  ])('%s: %s', (label, meaning) => {
    expect(labelMeaning(label, 'person')).toBe(meaning)
  })

  test('of a company: one that is private is not listed, a household is no company', () => {
    expect(labelMeaning('Private', 'company')).toBeNull()
    expect(labelMeaning('private household', 'company')).toBe('private')
    expect(labelMeaning('Employee', 'company')).toBeNull()
  })
})

describe('codes that a comment explains', () => {
  test.each([
    [
      'A: active, L: left the company, X: do not contact',
      { A: 'active', L: 'left the company', X: 'do not contact' },
    ],
    ['0 = inactief, 1 = actief, 2 = gearchiveerd', { 0: 'inactief', 1: 'actief', 2: 'gearchiveerd' }],
    ["'C' => cancelled; 'P' => paid", { C: 'cancelled', P: 'paid' }],
    ['The time of the last change', null],
    ['ISO 3166-1 alpha-2', null],
  ])('%s', (comment, codes) => {
    expect(parseCodes(comment)).toEqual(codes && new Map(Object.entries(codes)))
  })
})
