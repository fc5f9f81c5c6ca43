import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { signWebhook, verifyWebhook } from '../../../src/webhook/signature.ts'

const body = '{"event_id":"e1", "status" : "completed"}'
const signature = signWebhook(body, 'top-secret')
const bytes = fc.uint8Array({ maxLength: 64 }).map((array) => Buffer.from(array))
const secret = fc.string({ minLength: 1, maxLength: 32 })

describe('verifyWebhook', () => {
  test('matches RFC 4231, test case 2', () => {
    const expected = '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843'
    expect(signWebhook('what do ya want for nothing?', 'Jefe')).toBe(expected)
    expect(verifyWebhook('what do ya want for nothing?', expected, ['Jefe'])).toBe(true)
  })

  test('accepts signed text or bytes, with any of several secrets', () => {
    expect(verifyWebhook(body, signature, ['top-secret'])).toBe(true)
    expect(verifyWebhook(Buffer.from(body), signature, ['newer', 'top-secret', 'older'])).toBe(true)
    expect(verifyWebhook(body, [signature], ['top-secret'])).toBe(true)
  })

  test.each<[string, string | string[] | undefined]>([
    ['none', undefined],
    ['an empty one', ''],
    ['no value in the list', []],
    ['a wrong one', signWebhook(body, 'other')],
    ['uppercase', signature.toUpperCase()],
    ['one truncated', signature.slice(0, -2)],
    ['one too long', `${signature}00`],
    ['one with a prefix', `sha256=${signature}`],
    ['one with white space', ` ${signature}`],
    ['one with a line break', `${signature}\n`],
    ['the header given twice', `${signature}, ${signature}`],
    ['the header given twice, as a list', [signature, signature]],
    ['not hexadecimal', 'g'.repeat(64)],
    ['base64', Buffer.from(signature, 'hex').toString('base64')],
    ['characters beyond ASCII', 'é'.repeat(32)],
    ['one over the same JSON written anew', signWebhook(JSON.stringify(JSON.parse(body)), 'top-secret')],
  ])('rejects %s', (_, given) => {
    expect(verifyWebhook(body, given, ['top-secret', 'newer'])).toBe(false)
  })

  test.each([[['']], [[]], [['fine', '']]])('throws for the secrets %j', (secrets) => {
    expect(() => verifyWebhook(body, signWebhook(body, ''), secrets)).toThrow(/FILLRATE_WEBHOOK_SECRET/)
  })

  test('accepts exactly what signWebhook made with one of the secrets over the same bytes', () => {
    fc.assert(
      fc.property(bytes, secret, fc.array(secret, { maxLength: 3 }), fc.nat(3), (signed, own, others, at) => {
        const secrets = others.toSpliced(at, 0, own)
        expect(verifyWebhook(signed, signWebhook(signed, own), secrets)).toBe(true)
      }),
    )
    fc.assert(
      fc.property(bytes, bytes, secret, (signed, received, own) => {
        expect(verifyWebhook(received, signWebhook(signed, own), [own])).toBe(signed.equals(received))
      }),
    )
    fc.assert(
      fc.property(bytes, secret, fc.array(secret, { minLength: 1, maxLength: 3 }), (signed, own, others) => {
        fc.pre(!others.includes(own))
        expect(verifyWebhook(signed, signWebhook(signed, own), others)).toBe(false)
      }),
    )
    fc.assert(
      fc.property(bytes, secret, fc.nat(63), fc.integer({ min: 1, max: 15 }), (signed, own, at, change) => {
        const right = signWebhook(signed, own)
        const digit = (Number.parseInt(right.charAt(at), 16) ^ change).toString(16)
        expect(verifyWebhook(signed, right.slice(0, at) + digit + right.slice(at + 1), [own])).toBe(false)
      }),
    )
  })
})
