import { expect, test } from 'vitest'
import { createAccounts, createContacts } from '../../../src/demo/crm.ts'
import { FULL_DEMO } from '../../../src/demo/settings.ts'

const accounts = createAccounts(FULL_DEMO.seed, FULL_DEMO.accounts)
const contacts = createContacts(FULL_DEMO.seed, FULL_DEMO.contacts, accounts)

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
