import { expect, test } from 'vitest'
import { createAccounts, createContacts } from '../../../src/demo/crm.ts'
import { FULL_DEMO } from '../../../src/demo/settings.ts'
import { chooseLookup } from '../../../src/domain/identifiers/choose.ts'

const accounts = createAccounts(FULL_DEMO.seed, FULL_DEMO.accounts)
const contacts = createContacts(FULL_DEMO.seed, FULL_DEMO.contacts, accounts)

const questions = contacts.map((contact) =>
  chooseLookup('person', {
    email: contact.email,
    linkedin_url: contact.linkedin,
    name: [contact.first_name, contact.last_name].filter((name) => name !== null).join(' '),
    company: accounts.find((account) => account.id === contact.account_id)?.name ?? null,
    domain: null,
  }),
)

test('a seed determines the CRM', () => {
  expect(createAccounts(FULL_DEMO.seed, FULL_DEMO.accounts)).toEqual(accounts)
  expect(createContacts(FULL_DEMO.seed, FULL_DEMO.contacts, accounts)).toEqual(contacts)
  expect(createAccounts(FULL_DEMO.seed + 1, FULL_DEMO.accounts)).not.toEqual(accounts)
})

test('every host is under .example, which is reserved', () => {
  const hosts = contacts.flatMap(({ email }) => email?.match(/(?<=@)[^\s>,]+/gu) ?? [])
  expect(hosts.length).toBeGreaterThan(3_000)
  expect(hosts.filter((host) => !/\.example$/i.test(host))).toEqual([])
})

test('people have every kind of identifier, some have none, and some occur several times', () => {
  const counts = Object.groupBy(questions, ({ lookup }) => lookup?.kind ?? 'none')
  expect(counts.email?.length).toBeGreaterThan(3_500)
  expect(counts.linkedin_url?.length).toBeGreaterThan(200)
  expect(counts.name_company?.length).toBeGreaterThan(150)
  expect(counts.none?.length).toBeGreaterThan(100)
  // An invalid address, with a profile or a name as fallback.
  expect(questions.filter(({ lookup, notes }) => lookup !== null && notes.length > 0).length).toBeGreaterThan(
    100,
  )
  const keys = questions.flatMap(({ lookup }) => (lookup === null ? [] : [lookup.key]))
  expect(keys.length - new Set(keys).size).toBeGreaterThan(200)
  expect(accounts.length - new Set(accounts.map(({ name }) => name.toLowerCase())).size).toBeGreaterThan(10)
})

test('contains manually entered values and every form of blank', () => {
  const titles = new Set(contacts.map(({ title }) => title))
  for (const value of ['N/A', '0', '?', 'CEO', '', ' ', '\u00a0', '\u200b', null])
    expect(titles).toContain(value)
  expect(accounts.some(({ employees }) => employees === 0)).toBe(true)
  expect(contacts.some(({ attributes }) => attributes.department === null)).toBe(true)
  expect(contacts.some(({ deleted_at: deleted }) => deleted !== null)).toBe(true)
  expect(accounts.some(({ archived_at: archived }) => archived !== null)).toBe(true)
})
