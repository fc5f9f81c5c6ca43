import { describe, expect, test } from 'vitest'
import { normalizeProfileUrl } from '../../../../src/domain/identifiers/addresses.ts'

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

  test('a generated identifier keeps its case: another case is another person', () => {
    const slug = 'ACoAABcDeFgHiJkLmNoPqRsTuVwXyZ0123456789'
    expect(normalizeProfileUrl(`https://www.linkedin.com/in/${slug}`)).toEqual({
      ok: true,
      key: `linkedin.com/in/${slug}`,
      input: { linkedin_url: `https://www.linkedin.com/in/${slug}` },
    })
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
