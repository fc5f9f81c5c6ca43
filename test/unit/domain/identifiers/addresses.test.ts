import { describe, expect, test } from 'vitest'
import {
  normalizeDomain,
  normalizeEmail,
  normalizeProfileUrl,
} from '../../../../src/domain/identifiers/addresses.ts'

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

describe('a profile URL', () => {
  test.each([
    'https://www.linkedin.com/in/jane-doe',
    'http://linkedin.com/in/jane-doe/',
    'HTTPS://WWW.LinkedIn.com/IN/Jane-Doe',
    'linkedin.com/in/jane-doe',
    'no.linkedin.com/in/jane-doe?trk=profile#about',
    '//m.linkedin.com/in/jane-doe/details/experience/',
    'https://www.linkedin.com/in/jane-doe/en-US',
    'https://https://www.linkedin.com/in/jane-doe',
    'https:/www.linkedin.com/in/jane-doe',
    'www.linkedin.com:443//in//jane-doe',
    '\u00a0 https://www.linkedin.com/in/jane-doe\u200b',
    'https://www.linkedin.com/in/jane-doe%20',
    'linkedin.com/in/%6aane-doe',
  ])('%j is jane-doe', (raw) => {
    expect(normalizeProfileUrl(raw)).toEqual({
      ok: true,
      key: 'linkedin.com/in/jane-doe',
      input: { linkedin_url: 'https://www.linkedin.com/in/jane-doe' },
    })
  })

  test.each([
    'linkedin.com/in/ren%C3%A9-%C3%85s',
    'linkedin.com/in/René-Ås',
    'linkedin.com/in/Rene\u0301-A\u030as',
  ])('%j is one profile, however its letters are written', (raw) => {
    expect(normalizeProfileUrl(raw)).toEqual({
      ok: true,
      key: 'linkedin.com/in/rené-ås',
      input: { linkedin_url: 'https://www.linkedin.com/in/ren%C3%A9-%C3%A5s' },
    })
  })

  test('an ordinary one is that of the same address written in another way', () => {
    for (const slug of ['a', '7', 'jane-doe', 'jane-doe-', '-jane', '-', 'x'.repeat(200), 'x'.repeat(201)])
      for (const before of ['', 'https://www.', 'http://', 'www.'])
        expect(normalizeProfileUrl(`${before}linkedin.com/in/${slug}`)).toEqual(
          normalizeProfileUrl(`${before}linkedin.com/in/${slug}?trk=a`),
        )
  })

  test.each(['ACoA', 'ACwA'])(
    'a generated identifier, %s…, keeps its case: another case is another person',
    (first) => {
      const slug = `${first}ABcDeFgHiJkLmNoPqRsTuVwXyZ0123456789`
      expect(normalizeProfileUrl(`https://www.linkedin.com/in/${slug}`)).toEqual({
        ok: true,
        key: `linkedin.com/in/${slug}`,
        input: { linkedin_url: `https://www.linkedin.com/in/${slug}` },
      })
    },
  )

  test('the full stop of a sentence is no part of it', () => {
    expect(normalizeProfileUrl('See linkedin.com/in/jane-doe.'.slice(4))).toEqual(
      normalizeProfileUrl('linkedin.com/in/jane-doe'),
    )
  })

  test.each([
    ['jane-doe', 'bare handle'],
    ['@jane', 'bare handle'],
    ['in/jane-doe', 'bare handle'],
    ['/in/jane-doe', 'bare handle'],
    ['jane@acme.no', 'email address'],
    ['https://twitter.com/jane', 'not a linkedin.com address'],
    ['notlinkedin.com/in/jane', 'not a linkedin.com address'],
    ['https://linkedin.com.evil.example/in/jane', 'not a linkedin.com address'],
    ['https://linkedin.com@evil.example/in/jane', 'not a linkedin.com address'],
    ['https://lnkd.in/abc', 'not a linkedin.com address'],
    ['https://www.linkedin.com', 'no profile in the address'],
    ['https://www.linkedin.com/in/', 'no profile in the address'],
    ['https://www.linkedin.com/in/../company/acme', 'no profile in the address'],
    ['https://www.linkedin.com/company/acme', 'company page'],
    ['https://www.linkedin.com/school/ntnu/', 'company page'],
    ['https://www.linkedin.com/pub/jane-doe/1/2/3', 'not a profile page'],
    ['https://www.linkedin.com/sales/people/ACwAAA', 'not a profile page'],
    ['https://www.linkedin.com/in/jane doe', 'white space inside'],
    ['https://www.linkedin.com/in/jane%20doe', 'profile name with a character that is not allowed'],
    ['https://www.linkedin.com/in/jane%2Fdoe', 'profile name with a character that is not allowed'],
    ['https://www.linkedin.com/in/jane%2541', 'profile name with a character that is not allowed'],
    ['linkedin.com/in/jane,linkedin.com/in/joe', 'profile name with a character that is not allowed'],
    ['linkedin.com/in/jane\u037ejoe', 'profile name with a character that is not allowed'],
    ['linkedin.com/in/jane\ud800', 'profile name with a character that is not allowed'],
    ['https://www.linkedin.com/in/jane%E9', 'broken percent-encoding'],
    ['https://www.linkedin.com/in/50%', 'broken percent-encoding'],
    [`linkedin.com/in/${'a'.repeat(201)}`, 'profile name over 200 characters'],
    [`linkedin.com/in/a?${'a'.repeat(4096)}`, 'over 4,096 characters'],
  ])('rejects %j: %s', (raw, reason) => {
    expect(normalizeProfileUrl(raw)).toEqual({ ok: false, reason, input: 'linkedin_url' })
  })

  test('blank is nothing', () => {
    expect(normalizeProfileUrl(null)).toBeNull()
    expect(normalizeProfileUrl(' \u200b')).toBeNull()
  })
})
