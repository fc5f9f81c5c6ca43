import { expect, test } from 'vitest'
import { createAccounts, createContacts } from '../../../src/demo/crm.ts'
import { FULL_DEMO } from '../../../src/demo/settings.ts'

const accounts = createAccounts(FULL_DEMO.seed, FULL_DEMO.accounts)
const contacts = createContacts(FULL_DEMO.seed, FULL_DEMO.contacts, accounts)

test('every host is under .example, which is reserved', () => {
  const hosts = contacts.flatMap(({ email }) => email?.match(/(?<=@)[^\s>,]+/gu) ?? [])
  expect(hosts.length).toBeGreaterThan(3_000)
  expect(hosts.filter((host) => !/\.example$/i.test(host))).toEqual([])
})
