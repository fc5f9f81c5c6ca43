import { createHmac, timingSafeEqual } from 'node:crypto'

const SIGNATURE_PATTERN = /^[0-9a-f]{64}$/

/**
 * Signs a body with HMAC-SHA256, in lowercase hexadecimal (interface document, Events 1). For tests of a receiver.
 * @example
 * const headers = { 'x-webhook-signature': signWebhook(body, secret) }
 */
export function signWebhook(body: Buffer | string, secret: string): string {
  return computeHmac(body, secret).toString('hex')
}

/**
 * Whether the `x-webhook-signature` header was made from exactly these bytes with one of the secrets. Pass the body as
 * received: JSON that was parsed and serialized again has different bytes. All secrets are tried, each in constant time,
 * so that timing reveals nothing.
 *
 * Strict where the interface is explicit: exactly 64 lowercase hexadecimal digits; uppercase, a prefix (`sha256=`),
 * white space and a repeated header are rejected.
 *
 * @throws TypeError if there is no secret, or an empty one, with which anyone could sign
 * @example
 * app.post('/webhooks/enrichment', (request, reply) => {
 *   if (!verifyWebhook(request.rawBody, request.headers['x-webhook-signature'], [newSecret, oldSecret]))
 *     return reply.code(401).send()
 * })
 */
export function verifyWebhook(
  body: Buffer | string,
  signature: string | readonly string[] | undefined,
  secrets: string | readonly string[],
): boolean {
  const all = typeof secrets === 'string' ? [secrets] : secrets
  if (all.length === 0 || all.includes('')) {
    throw new TypeError(
      'a webhook secret is missing or empty: expected at least one (FILLRATE_WEBHOOK_SECRET)',
    )
  }
  const given = singleSignature(signature)
  if (given === null) return false
  const claimed = Buffer.from(given, 'hex')
  let matches = 0
  for (const secret of all) matches |= Number(timingSafeEqual(computeHmac(body, secret), claimed))
  return matches === 1
}

/** Whether a header has the form of a signature; if not, the body need not be read. */
export const isWellFormedSignature = (signature: string | readonly string[] | undefined): boolean =>
  singleSignature(signature) !== null

function singleSignature(signature: string | readonly string[] | undefined): string | null {
  const given = typeof signature === 'object' && signature.length === 1 ? signature[0] : signature
  return typeof given === 'string' && SIGNATURE_PATTERN.test(given) ? given : null
}

const computeHmac = (body: Buffer | string, secret: string): Buffer =>
  createHmac('sha256', secret).update(body).digest()
