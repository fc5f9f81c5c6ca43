import { createHmac } from 'node:crypto'

/**
 * The value of `x-webhook-signature`: lowercase hexadecimal HMAC with SHA-256 over the bytes of the body
 * (service-interface.md, Events 1).
 */
export function sign(body: Buffer, secret: string): string {
  return createHmac('sha256', secret).update(body).digest('hex')
}

/** A signature that a receiver must refuse: of another secret, cut short, or none; `choice` takes one. */
export function badSignature(body: Buffer, secret: string, choice: number): string | undefined {
  const other = sign(body, `not ${secret}`)
  return [other, sign(body, secret).slice(0, 32), undefined][choice % 3]
}
