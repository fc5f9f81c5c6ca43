import { expect, test } from 'vitest'
import {
  isDeletionOrObjection,
  isEndingDate,
  isNameColumn,
  isOthersAddress,
  isPositiveFlag,
  rankDomainName,
} from '../../../src/init/names.ts'

test.each([
  'deleted_at',
  'deletedAt',
  'is_deleted',
  '_fivetran_deleted',
  'discarded_at',
  'anonymised_at',
  'unsubscribed',
  'unsubscribed_at',
  'Unsubscribed',
  'do_not_contact',
  'DO_NOT_CONTACT',
  'Do not contact',
  'doNotCall',
  'emailoptout',
  'hs_email_optout',
  'HasOptedOutOfEmail',
  'opt_out',
  'no-contact',
  'consent_withdrawn_at',
  'Consent withdrawn',
  'blacklisted',
])('%s is deletion or objection', (name) => {
  expect(isDeletionOrObjection(name)).toBe(true)
})

test.each([
  'created_at',
  'archived',
  'active',
  'status',
  'closed',
  'opt_in',
  'unsubscribe_token',
  'deleted_by',
  'deleted_messages_count',
  'can_be_deleted',
  'properties_hs_email_optout_8812345',
  'contact',
  'last_contacted_at',
  'resubscribed_at',
  'not_deleted',
])('%s is not', (name) => {
  expect(isDeletionOrObjection(name)).toBe(false)
})

test('dates that end something', () => {
  for (const name of ['left_company_on', 'contractEndDate', 'valid_until', 'suspended_at', 'deleted_at'])
    expect([name, isEndingDate(name)]).toEqual([name, true])
  for (const name of ['created_at', 'birthday', 'last_contacted', 'founded_on'])
    expect([name, isEndingDate(name)]).toEqual([name, false])
})

test('flags that are good when they are set', () => {
  for (const name of [
    'active_flag',
    'owner_id__active_flag',
    'account_activated',
    'marketingOptIn',
    'active',
    'is_active',
    'marketing_opt_in',
    'consent',
    'privacy_accepted',
  ])
    expect([name, isPositiveFlag(name)]).toEqual([name, true])
  for (const name of ['inactive', 'not_active', 'is_internal', 'deleted', 'opt_out', 'consent_withdrawn'])
    expect([name, isPositiveFlag(name)]).toEqual([name, false])
})

test('addresses of others, and URLs of other things', () => {
  expect(['owner_email', 'createdByEmail', 'reply_to'].every(isOthersAddress)).toBe(true)
  expect(['email', 'work_email', 'emailsPrimaryEmail'].some(isOthersAddress)).toBe(false)
  expect(['linkedin_url', 'avatar_url', 'domainNamePrimaryLinkLabel', 'name'].map(rankDomainName)).toEqual([
    0, 0, 0, 0,
  ])
  expect(['domain', 'emailDomain', 'website'].map(rankDomainName)).toEqual([3, 2, 1])
})

test.each(['name', 'full_nm', 'firstName', 'last_name', 'surname'])('%s holds names', (name) => {
  expect(isNameColumn(name)).toBe(true)
})

test.each(['stage_name', 'status', 'plan'])('%s holds labels', (name) => {
  expect(isNameColumn(name)).toBe(false)
})
