import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import * as writing from '../../../src/demo/untidy-values.ts'
import { normalizeDomain } from '../../../src/domain/identifiers/domain.ts'
import { normalizeEmail } from '../../../src/domain/identifiers/email.ts'
import { normalizeProfileUrl } from '../../../src/domain/identifiers/profile-url.ts'
import { createRng } from '../../../src/sandbox/rng.ts'

const luck = fc.integer({ min: 0, max: 1_000_000 }).map((n) => createRng(1, `test ${n}`))

test('all spellings of an address give the same lookup', () => {
  fc.assert(
    fc.property(
      luck,
      fc.constantFrom('anna.berg7@alderbridge.example', 'o-n+crm@blåpeak.example'),
      (luck, address) => {
        const key = normalizeEmail(address)
        expect(normalizeEmail(writing.writeEmail(luck, address))).toEqual(key)
        expect(key).toMatchObject({ ok: true })
      },
    ),
  )
})

test('all spellings of a profile URL give the same lookup', () => {
  fc.assert(
    fc.property(luck, (luck) => {
      expect(normalizeProfileUrl(writing.writeProfile(luck, 'anna-berg-4f1c2a'))).toMatchObject({
        ok: true,
        key: 'linkedin.com/in/anna-berg-4f1c2a',
      })
    }),
  )
})

test('all spellings of a website give the same company', () => {
  fc.assert(
    fc.property(luck, fc.constantFrom('alderbridge.example', 'mühlhaven.example'), (luck, host) => {
      const key = normalizeDomain(host)
      expect(normalizeDomain(writing.writeWebsite(luck, host))).toEqual(key)
      expect(key).toMatchObject({ ok: true })
    }),
  )
})

test('invalid values give no lookup', () => {
  fc.assert(
    fc.property(luck, (luck) => {
      const email = writing.writeInvalidEmail(luck, 'anna@alderbridge.example')
      expect(normalizeEmail(email)).toMatchObject({ ok: false })
      expect(normalizeProfileUrl(writing.writeInvalidProfile(luck, 'anna-berg'))).toMatchObject({ ok: false })
      expect(normalizeDomain(writing.writeInvalidWebsite(luck, 'alderbridge.example'))).toMatchObject({
        ok: false,
      })
    }),
  )
})

test('all blank forms count as blank', () => {
  fc.assert(
    fc.property(luck, (luck) => {
      expect(normalizeEmail(writing.writeBlank(luck))).toBeNull()
    }),
  )
})
