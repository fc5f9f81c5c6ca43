import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { headNoun, isSameEntity, singularize, splitIdentifier } from '../../../src/init/words.ts'

describe('the words of a name', () => {
  test.each([
    ['email', 'email'],
    ['work_email2', 'work email 2'],
    ['emailPrimary', 'email primary'],
    ['nameFirstName', 'name first name'],
    ['EmailAddress', 'email address'],
    ['E-Mail', 'email'],
    ['e_mail', 'email'],
    ['LinkedIn_URL__c', 'linkedin url'],
    ['linkedInUrl', 'linkedin url'],
    ['HQCity', 'hq city'],
    ['companyURL', 'company url'],
    ['firstname', 'first name'],
    ['surname', 'last name'],
    ['jobtitle', 'job title'],
    ['numberofemployees', 'number of employees'],
    ['web site', 'website'],
    ['isdeleted', 'is deleted'],
    ['organisation', 'organization'],
    ['øl_navn', 'oel name'],
    ['hasoptedoutofemail', 'has opt out of email'],
    ['gelöscht_am', 'deleted am'],
    ['geloescht_am', 'deleted am'],
    ['Werbesperre', 'no marketing'],
    ['werbesperren', 'no marketing'],
    ['fasciadipendenti', 'band employees'],
    ['arricchitoil', 'enriched il'],
    ['primeiro_nome', 'first name'],
    ['ne_plus_solliciter', 'no contact'],
    ['no_contactar', 'no contact'],
    ['mitarbeiteranzahl', 'employees'],
    ['raison_sociale', 'name'],
    ['Archivée', 'archived'],
    ['fornamn', 'first name'],
    ['antal_anstallda', 'number employees'],
    ['foretagsnamn', 'company name'],
    ['password', 'password'],
    ['newsletters', 'newsletters'],
    ['bank_name', 'bank name'],
    ['limit', 'limit'],
  ])('%s', (name, words) => {
    expect(splitIdentifier(name).join(' ')).toBe(words)
  })

  test('are lower-case, for any name', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (name) => {
        for (const word of splitIdentifier(name)) expect(word).toMatch(/^[\p{L}\p{N}]+$/u)
        expect(splitIdentifier(splitIdentifier(name).join('_'))).toEqual(splitIdentifier(name))
      }),
    )
  })
})

test.each([
  ['contacts', 'contact'],
  ['companies', 'company'],
  ['addresses', 'address'],
  ['people', 'person'],
  ['businesses', 'business'],
  ['status', 'status'],
  ['address', 'address'],
  ['lead', 'lead'],
])('%s → %s', (many, one) => {
  expect(singularize(many)).toBe(one)
})

test('the head noun of a table name', () => {
  expect(['crm_contacts', 'account_contacts', 'Person', 'contact_lists'].map(headNoun)).toEqual([
    'contact',
    'contact',
    'person',
    'list',
  ])
})

describe('a polymorphic type names a table', () => {
  test.each([
    ['Contact', 'contacts', true],
    ['contact', 'crm_contacts', true],
    ['App\\Models\\Contact', 'contacts', true],
    ['crm.contact', 'contact', true],
    ['Person', 'people', true],
    ['Account', 'contacts', false],
    ['Account', 'account_contacts', false],
    ['', 'contacts', false],
  ])('%s, %s: %s', (type, table, same) => {
    expect(isSameEntity(type, table)).toBe(same)
  })
})
