import { describe, expect, test } from 'vitest'
import { normalizeEmail } from '../../../../src/domain/identifiers/addresses.ts'

const longLocal = 'a'.repeat(64)

describe('an email address', () => {
  test.each([
    ['jane@acme.no', 'jane@acme.no'],
    ['  Jane.Doe@ACME.no\n', 'jane.doe@acme.no'],
    ['\u00a0jane@acme.no\u3000', 'jane@acme.no'],
    ['\u200bjane@acme.no\ufeff', 'jane@acme.no'],
    ['jane+crm@acme.no', 'jane+crm@acme.no'],
    ["o'brien@acme.ie", "o'brien@acme.ie"],
    ['a!#$%&*/=?^_`{|}~-b@acme.no', 'a!#$%&*/=?^_`{|}~-b@acme.no'],
    ['jane@bücher.de', 'jane@xn--bcher-kva.de'],
    ['jane@BÜCHER.DE', 'jane@xn--bcher-kva.de'],
    ['jane@XN--BCHER-KVA.de', 'jane@xn--bcher-kva.de'],
    ['jane@例え。jp', 'jane@xn--r8jz45g.jp'],
    [`${longLocal}@acme.no`, `${longLocal}@acme.no`],
    ['a@b.c', 'a@b.c'],
  ])('%j becomes %j', (raw, email) => {
    expect(normalizeEmail(raw)).toEqual({ ok: true, key: email, input: { email } })
  })

  test.each([
    ['jane', 'no @'],
    ['jane.acme.no', 'no @'],
    ['N/A', 'no @'],
    ['@acme.no', 'nothing before the @'],
    ['jane@', 'no host'],
    ['jane@acme', 'host without a dot'],
    ['jane@localhost', 'localhost'],
    ['jane@acme.no.', 'host with an empty label'],
    ['jane@.acme.no', 'host with an empty label'],
    ['jane@acme..no', 'host with an empty label'],
    ['jane@-acme.no', 'host with a hyphen at the end of a label'],
    ['jane@acme_as.no', 'host with a character that is not allowed'],
    ['jane@acme%2eno', 'host with a character that is not allowed'],
    ['jane@acme.no?subject=hi', 'host with a character that is not allowed'],
    ['jane@acme.no:25', 'host with a character that is not allowed'],
    ['jane@192.168.0.1', 'IP address'],
    ['jane@0x7f.1', 'IP address'],
    ['jane@１.２.３.４', 'IP address'],
    ['jane@[192.168.0.1]', 'IP address'],
    ['mailto:jane@acme.no', 'mailto: link'],
    ['Jane <jane@acme.no>', 'address with a display name'],
    ['<jane@acme.no>', 'address with a display name'],
    ['jane@acme.no, joe@acme.no', 'list of addresses'],
    ['jane@acme.no;joe@acme.no', 'list of addresses'],
    ['jane@acme.no joe@acme.no', 'list of addresses'],
    ['jane@acme.no / joe@acme.no', 'list of addresses'],
    ['jane@acme.no;', 'list of addresses'],
    ['jane@@acme.no', 'more than one @'],
    ['jane @acme.no', 'white space inside'],
    ['jane\u00a0doe@acme.no', 'white space inside'],
    ['"jane doe"@acme.no', 'white space inside'],
    ['"jane"@acme.no', 'quoted local part'],
    ['jané@acme.no', 'local part with a character that is not allowed'],
    ['jane\u200b@acme.no', 'local part with a character that is not allowed'],
    ['\u212aari@acme.no', 'local part with a character that is not allowed'],
    ['jane(work)@acme.no', 'local part with a character that is not allowed'],
    ['.jane@acme.no', 'local part with a stray dot'],
    ['jane.@acme.no', 'local part with a stray dot'],
    ['jane..doe@acme.no', 'local part with a stray dot'],
    [`${longLocal}a@acme.no`, 'local part over 64 characters'],
    [`jane@${'a'.repeat(64)}.no`, 'host with a label over 63 characters'],
    [`jane@${'a.'.repeat(130)}no`, 'host over 253 characters'],
    [`${longLocal}@${'a.'.repeat(95)}no`, 'over 254 characters'],
  ])('rejects %j: %s', (raw, reason) => {
    expect(normalizeEmail(raw)).toEqual({ ok: false, reason, input: 'email' })
  })

  test.each([[null], [''], ['  \t\n'], ['\u00a0'], ['\u200b\u3000\ufeff']])('%j is blank', (raw) => {
    expect(normalizeEmail(raw)).toBeNull()
  })
})
