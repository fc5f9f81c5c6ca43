import { describe, expect, test } from 'vitest'
import { normalizeDomain } from '../../../../src/domain/identifiers/addresses.ts'

describe('a company domain', () => {
  test.each([
    ['acme.no', 'acme.no'],
    ['  ACME.no.\n', 'acme.no'],
    ['\u00a0acme.no\u3000', 'acme.no'],
    ['www.acme.no', 'acme.no'],
    ['https://www.acme.no/about?x=1#top', 'acme.no'],
    ['HTTP://WWW.ACME.NO:8080/', 'acme.no'],
    ['//acme.no', 'acme.no'],
    ['https:acme.no', 'acme.no'],
    ['https:\\\\acme.no\\about', 'acme.no'],
    ['http://https://acme.no', 'acme.no'],
    ['ftp://files.acme.no', 'files.acme.no'],
    ['acme.no/a,b c', 'acme.no'],
    ['https://acme.no/@press', 'acme.no'],
    ['https://bücher.de/', 'xn--bcher-kva.de'],
    ['ｗｗｗ.acme。no', 'acme.no'],
    ['www.com', 'www.com'],
    ['www.acme', 'www.acme'],
    ['www.www.acme.no', 'acme.no'],
    ['www2.acme.no', 'www2.acme.no'],
    ['mail.acme.co.uk', 'mail.acme.co.uk'],
    ['live.io', 'live.io'],
    ['notgmail.com', 'notgmail.com'],
    ['outlooktravel.com', 'outlooktravel.com'],
    ['netflix.com', 'netflix.com'],
  ])('%j becomes %j', (raw, domain) => {
    expect(normalizeDomain(raw)).toEqual({ ok: true, key: domain, input: { domain } })
  })

  test.each([
    ['jane@acme.no', 'email address'],
    ['mailto:jane@acme.no', 'email address'],
    ['https://jane:secret@acme.no/', 'address with a user name'],
    ['localhost', 'localhost'],
    ['http://localhost:3000/', 'localhost'],
    ['api.localhost', 'localhost'],
    ['acme', 'host without a dot'],
    ['N/A', 'host without a dot'],
    ['https://', 'no host'],
    ['192.168.0.1', 'IP address'],
    ['http://192.168.0.1:8080/x', 'IP address'],
    ['127.1', 'IP address'],
    ['0x7f.1', 'IP address'],
    ['::1', 'IP address'],
    ['http://[2001:db8::1]:80/', 'IP address'],
    ['acme.no, acme.se', 'list of domains'],
    ['acme.no;acme.se', 'list of domains'],
    ['acme.no acme.se', 'white space inside'],
    ['Acme AS', 'white space inside'],
    ['acme_as.no', 'host with a character that is not allowed'],
    ['acme%2eno', 'host with a character that is not allowed'],
    ['acme..no', 'host with an empty label'],
    ['.acme.no', 'host with an empty label'],
    ['-acme.no', 'host with a hyphen at the end of a label'],
    [`https://acme.no/${'a'.repeat(4096)}`, 'over 4,096 characters'],
  ])('rejects %j: %s', (raw, reason) => {
    expect(normalizeDomain(raw)).toEqual({ ok: false, reason, input: 'domain' })
  })

  test.each([
    'gmail.com',
    'https://www.gmail.com',
    'hotmail.no',
    'yahoo.co.uk',
    'mail.yahoo.com',
    'live.se',
    'gmx.net',
  ])('%s is a free-mail host', (raw) => {
    expect(normalizeDomain(raw)).toEqual({ ok: false, reason: 'free-mail host', input: 'domain' })
  })

  test.each([
    'https://www.facebook.com/acme',
    'no.linkedin.com/company/acme',
    'acme.tumblr.com',
    'x.com',
    'pinterest.co.uk',
  ])('%s is a social host', (raw) => {
    expect(normalizeDomain(raw)).toEqual({ ok: false, reason: 'social host', input: 'domain' })
  })

  test.each(['co.uk', 'https://github.io/', 'www.herokuapp.com', 'com.br'])(
    '%s is a public suffix',
    (raw) => {
      expect(normalizeDomain(raw)).toEqual({ ok: false, reason: 'public suffix', input: 'domain' })
    },
  )

  test.each(['acme.co.uk', 'acme.github.io', 'mail.acme.co.uk', 'acme.de'])(
    '%s below a public suffix is a domain',
    (domain) => {
      expect(normalizeDomain(domain)).toEqual({ ok: true, key: domain, input: { domain } })
    },
  )

  test('blank is nothing', () => {
    expect(normalizeDomain(null)).toBeNull()
    expect(normalizeDomain('\u00a0\t')).toBeNull()
  })
})
