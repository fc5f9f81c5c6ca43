import fc from 'fast-check'
import { isDeepStrictEqual } from 'node:util'
import { describe, expect, test } from 'vitest'
import { chooseLookup } from '../../../../src/domain/identifiers/choose.ts'
import {
  normalizeDomain,
  normalizeEmail,
  normalizeProfileUrl,
} from '../../../../src/domain/identifiers/addresses.ts'
import type { LookupInput, NormalizedInput } from '../../../../src/domain/identifiers/kind.ts'
import { normalizeNameCompany } from '../../../../src/domain/identifiers/name-company.ts'
import { NAME_DETAILS } from '../../../../src/domain/mapping.ts'

/** Any code unit, including lone surrogates, and often the significant characters. */
const character = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.constantFrom(
      ...'aZ09.@-_/:%?#,;<>"[]+ \u00a0\u200b\u3000\u037e\u212aİßǅＡ．。１ﷺ\u3164\u0301\ud800',
    ),
  },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', minLength: 1, maxLength: 1 }) },
)
const anything = fc.array(character, { maxLength: 30 }).map((characters) => characters.join(''))

const framed = (before: string[], after: string[]) =>
  fc.tuple(fc.constantFrom(...before), anything, fc.constantFrom(...after)).map((parts) => parts.join(''))
const mild = fc.string({
  unit: fc.constantFrom(...'abcXYZ019-.éßİＡ例\u00ad\u200d'),
  minLength: 1,
  maxLength: 12,
})
const hosts = fc.oneof(
  fc.domain(),
  mild,
  mild.map((label) => `${label}.No`),
)
const emails = fc.oneof(
  anything,
  framed(['', 'jane@', 'Jane.'], ['', '.no', '@acme.no']),
  fc.emailAddress(),
  fc.tuple(mild, hosts).map((parts) => parts.join('@')),
)
const profiles = fc.oneof(
  anything,
  framed(['linkedin.com/in/', 'HTTPS://no.LinkedIn.com/IN/'], ['', '/x', '?y']),
)
const domains = fc.oneof(
  anything,
  framed(['', 'www.', 'https://', 'http://www.'], ['', '.no', '.no/x', '.no.:80']),
  fc.webUrl(),
  fc
    .tuple(fc.constantFrom('', 'WWW.', 'https://www.www.'), hosts, fc.constantFrom('', '.', ':80/x'))
    .map((p) => p.join('')),
)

const single = [
  ['email', emails, normalizeEmail],
  ['profile URL', profiles, normalizeProfileUrl],
  ['domain', domains, normalizeDomain],
] as const satisfies ReadonlyArray<
  readonly [string, unknown, (raw: string | null) => NormalizedInput<LookupInput>]
>

const hasNoSpaceOrUpperCase = (key: string) =>
  !/\s/.test(key) && key === key.toLowerCase() && key.isWellFormed()

describe.each(single)('%s', (_name, arbitrary, normalize) => {
  test('a key is its own key, without white space or upper case', () => {
    let usable = 0
    fc.assert(
      fc.property(arbitrary, (raw) => {
        const first: NormalizedInput<LookupInput> = normalize(raw)
        if (first?.ok !== true) return true
        usable++
        const again: NormalizedInput<LookupInput> = normalize(first.key)
        return hasNoSpaceOrUpperCase(first.key) && again?.ok === true && again.key === first.key
      }),
      { numRuns: 4000 },
    )
    expect(usable).toBeGreaterThan(100)
  })

  test('the request has the same key as the input', () => {
    fc.assert(
      fc.property(arbitrary, (raw) => {
        const first: NormalizedInput<LookupInput> = normalize(raw)
        if (first?.ok !== true) return
        const again: NormalizedInput<LookupInput> = normalize(Object.values(first.input).join())
        expect(again).toEqual(first)
      }),
      { numRuns: 2000 },
    )
  })

  test('surrounding white space and zero-width marks change nothing', () => {
    const around = fc
      .array(fc.constantFrom(' ', '\t', '\n', '\u00a0', '\u3000', '\u200b', '\ufeff'))
      .map((a) => a.join(''))
    fc.assert(
      fc.property(around, arbitrary, around, (before, raw, after) => {
        expect(normalize(before + raw + after)).toEqual(normalize(raw))
      }),
    )
  })
})

test('a name and company: the request has the same key, without white space or upper case', () => {
  let usable = 0
  fc.assert(
    fc.property(anything, anything, (name, company) => {
      const first = normalizeNameCompany({ name, company })
      if (first?.ok !== true) return true
      usable++
      const again = normalizeNameCompany(first.input)
      return hasNoSpaceOrUpperCase(first.key) && again?.ok === true && again.key === first.key
    }),
    { numRuns: 4000 },
  )
  expect(usable).toBeGreaterThan(100)
})

test('two people have one key exactly if what is sent of them is the same after normalising', () => {
  const word = fc.constantFrom('', ' ', 'Ada', 'ADA ', 'a|b', 'a', 'b', 'a b', 'b+', '|', '%7c', '-')
  const host = fc.constantFrom('', 'acme.no', 'https://WWW.acme.no/x', 'acme.com', 'gmail.com')
  const raw = fc.record({
    name: word,
    company: word,
    first_name: word,
    last_name: word,
    company_domain: host,
  })
  const details = fc.subarray([...NAME_DETAILS])
  const copied = fc.subarray(['name', 'company', 'first_name', 'last_name', 'company_domain'] as const)
  /** What is sent, each field normalised by itself. */
  const foldAll = (input: object): object =>
    Object.fromEntries(
      Object.entries(input).map(([field, value]) => [field, String(value).toLowerCase().trim()]),
    )
  let same = 0
  fc.assert(
    fc.property(raw, raw, copied, details, (a, more, alike, taken) => {
      const b = { ...more, ...Object.fromEntries(alike.map((part) => [part, ` ${a[part].toUpperCase()}`])) }
      const [one, other] = [normalizeNameCompany(a, taken), normalizeNameCompany(b, taken)]
      if (one?.ok !== true || other?.ok !== true) return
      const isOne = one.key === other.key
      if (isOne) same++
      expect(isOne).toBe(isDeepStrictEqual(foldAll(one.input), foldAll(other.input)))
      expect(hasNoSpaceOrUpperCase(one.key)).toBe(true)
      const again = normalizeNameCompany(one.input, taken)
      expect(again?.ok === true && again.key).toBe(one.key)
    }),
    { numRuns: 4000 },
  )
  expect(same).toBeGreaterThan(50)
})

test('case and white space do not distinguish names', () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (name, company) => {
      const key = (n: string, c: string) => {
        const normalized = normalizeNameCompany({ name: n, company: c })
        return normalized?.ok === true ? normalized.key : null
      }
      expect(key(name.toUpperCase(), company.replaceAll(' ', ' \u00a0'))).toBe(key(name, company))
    }),
  )
})

test('no reason contains the value', () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[a-z]{12}[@. ,][a-z]{12}$/), (secret) => {
      const raw = { email: secret, linkedin_url: secret, name: secret, company: null, domain: `${secret}@` }
      for (const kind of ['person', 'company'] as const) {
        for (const { reason } of chooseLookup(kind, raw).notes) {
          expect(reason).not.toContain(secret.slice(0, 12))
          expect(reason).not.toContain(secret.slice(13))
        }
      }
    }),
  )
})

/**
 * A quadratic step would take hours on texts of this length, so the test fails by its time limit and
 * asserts no timing itself.
 */
test('long texts take linear time', () => {
  const length = 1_000_000
  for (const filling of [
    ' ',
    'a',
    '.',
    'a.',
    '@',
    'a@',
    '/',
    '%',
    '-',
    'é',
    'xn--',
    '\u200b',
    'http://',
    'www.',
    ' a',
  ]) {
    const long = filling.repeat(length / filling.length)
    for (const value of [
      long,
      `a${long}b`,
      `a@${long}`,
      `${long}@b.no`,
      `linkedin.com/in/${long}`,
      `https://${long}.no`,
    ]) {
      const raw = { email: value, linkedin_url: value, name: null, company: null, domain: value }
      expect(chooseLookup('person', raw).lookup).toBeNull()
      expect(chooseLookup('company', raw).lookup).toBeNull()
      const named = normalizeNameCompany({ name: value, company: value })
      expect(named?.ok === true ? named.key.length : 0).toBeLessThan(1000)
    }
  }
})
