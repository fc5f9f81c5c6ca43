import { describe, expect, test } from 'vitest'
import { replaceTable } from '../../../src/sources/open-sources.ts'

const table = { schema: 'crm', name: 'accounts', isVisible: true }
const replace = (text: string, options = {}): string | null => replaceTable(text, table, '(X)', options)

describe('a table in an expression', () => {
  test.each([
    ['(select a.name from crm.accounts a where a.id = t.id)', '(select a.name from (X) a where a.id = t.id)'],
    ['(select name from accounts where id = 1)', '(select name from (X) as "accounts" where id = 1)'],
    ['(select name from CRM.Accounts)', '(select name from (X) as "accounts")'],
    ['(select name from "crm"."accounts" as a)', '(select name from (X) as a)'],
    ['(select 1 from crm.people p, crm.accounts a)', '(select 1 from crm.people p, (X) a)'],
    [
      '(select 1 from (crm.people p cross join crm.accounts a))',
      '(select 1 from (crm.people p cross join (X) a))',
    ],
    [
      '(select 1 from (crm.accounts a cross join crm.people p))',
      '(select 1 from ((X) a cross join crm.people p))',
    ],
    [
      '(select 1 from crm.accounts "A" where exists (select 1 from accounts))',
      '(select 1 from (X) "A" where exists (select 1 from (X) as "accounts"))',
    ],
    [
      'coalesce((select 1 from crm.accounts -- all\n), t.a)',
      'coalesce((select 1 from (X) as "accounts" -- all\n), t.a)',
    ],
  ])('%s', (text, expected) => {
    expect(replace(text)).toBe(expected)
  })

  test.each([
    't.accounts',
    "'from crm.accounts'",
    'extract(year from t.accounts)',
    't.a is distinct from crm.accounts(t.b)',
    '(select accounts, x from other.accounts)',
    '(select 1 from only crm.accounts)',
    '(select 1 from crm.accounts_old)',
    '(select 1 from crm.people accounts)',
    '(with accounts as (select 1) select 1 from accounts)',
    '(select 1 from crm.accounts tablesample system (1))',
    '(select f(a, accounts) from crm.people)',
  ])('%s does not read it', (text) => {
    expect(replace(text)).toBeNull()
  })

  test('that is not on the search path is named with its schema', () => {
    const hidden = { ...table, isVisible: false }
    expect(replaceTable('(select 1 from accounts)', hidden, '(X)')).toBeNull()
    expect(replaceTable('(select 1 from crm.accounts)', hidden, '(X)')).toBe(
      '(select 1 from (X) as "accounts")',
    )
  })

  test('what follows a table in FROM begins with a join or a comma', () => {
    expect(replace('left join crm.accounts a on a.id = t.id', { isJoins: true })).toBe(
      'left join (X) a on a.id = t.id',
    )
    expect(replace(', crm.accounts a', { isJoins: true })).toBe(', (X) a')
    expect(replace('left join lateral (select 1 from accounts limit 1) a on true', { isJoins: true })).toBe(
      'left join lateral (select 1 from (X) as "accounts" limit 1) a on true',
    )
  })
})
