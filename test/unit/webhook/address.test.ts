import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { isWellFormedToken, toJobAddress, verifyJobAddress } from '../../../src/webhook/address.ts'
import { signWebhook } from '../../../src/webhook/signature.ts'

const JOB = 'b3b1c6a0-7f3a-4f1e-9d57-3a1c0c6f8b11'
const publicUrl = 'https://crm.example'
const addressOf = (job: string, ...secrets: string[]): string =>
  toJobAddress({ publicUrl, job, secrets }, { signature: 'none' })
const tokenOf = (job: string, secret: string): string => addressOf(job, secret).split('/').at(-1) ?? ''

describe('the address of a job', () => {
  test('ends with a token where the service signs nothing, and with the job where it signs', () => {
    const address = addressOf(JOB, 'newest', 'older')
    expect(address).toMatch(
      /^https:\/\/crm\.example\/webhooks\/enrichment\/b3b1c6a0-[\da-f-]{27}\/[\w-]{43}$/,
    )
    expect(toJobAddress({ publicUrl, job: JOB, secrets: [] }, { signature: {} })).toBe(
      `${publicUrl}/webhooks/enrichment/${JOB}`,
    )
    expect(() => addressOf(JOB)).toThrow(/FILLRATE_WEBHOOK_SECRET/)
  })

  test('proves the job that it was made for, with the newest secret or an older one', () => {
    const token = tokenOf(JOB, 'older')
    expect(verifyJobAddress(JOB, token, ['newest', 'older'])).toBe(true)
    expect(verifyJobAddress(JOB.toUpperCase(), token, ['older'])).toBe(true)
    expect(verifyJobAddress(JOB, token, ['newest'])).toBe(false)
    expect(verifyJobAddress('b3b1c6a0-7f3a-4f1e-9d57-3a1c0c6f8b12', token, ['older'])).toBe(false)
    expect(verifyJobAddress(null, token, ['older'])).toBe(false)
  })

  test.each([
    ['none', null],
    ['an empty one', ''],
    ['a shorter one', tokenOf(JOB, 'key').slice(1)],
    ['a longer one', `${tokenOf(JOB, 'key')}A`],
    ['one with white space', ` ${tokenOf(JOB, 'key').slice(1)}`],
    ['a signature of the job', Buffer.from(signWebhook(JOB, 'key'), 'hex').toString('base64url')],
    ['the token of an empty secret', 'A'.repeat(43)],
  ])('is refused with %s', (_, token) => {
    expect(verifyJobAddress(JOB, token, ['key', ''])).toBe(false)
  })

  test('is another for each job and each secret', () => {
    fc.assert(
      fc.property(
        fc.uuid(),
        fc.uuid(),
        fc.string({ minLength: 1 }),
        fc.string({ minLength: 1 }),
        (a, b, x, y) => {
          const token = tokenOf(a, x)
          expect(isWellFormedToken(token)).toBe(true)
          expect(verifyJobAddress(b, token, [y])).toBe(a === b && x === y)
        },
      ),
    )
  })
})
