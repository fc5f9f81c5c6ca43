import { createHmac, timingSafeEqual } from 'node:crypto'
import { type SignatureScheme, USUAL_SIGNATURE } from '../domain/service/service.ts'

/** Characters of a signature, by what encodes it, and the bytes of each algorithm. */
const ALPHABETS = { hex: /^[0-9a-f]+$/, base64: /^[A-Za-z0-9+/]+={0,2}$/ } as const
const BYTES = { sha1: 20, sha256: 32, sha512: 64 } as const

/** Signs a body as a service does, for cases and tests. */
export function signWebhook(
  body: Buffer | string,
  secret: string,
  scheme: SignatureScheme = USUAL_SIGNATURE,
): string {
  return scheme.prefix + computeHmac(body, secret, scheme).toString(scheme.encoding)
}

/**
 * Whether a signature was made from exactly these bytes with one of the secrets. All secrets are tried, each in constant time,
 * so that timing reveals nothing. Strict where the interface is explicit: exactly 64 lowercase hexadecimal digits; uppercase, a
 * prefix (`sha256=`), white space and a repeated header are rejected.
 * @throws TypeError if there is no secret, or an empty one, with which anyone could sign
 */
export function verifyWebhook(
  body: Buffer | string,
  signature: string | readonly string[] | undefined,
  secrets: readonly string[],
  scheme: SignatureScheme = USUAL_SIGNATURE,
): boolean {
  if (secrets.length === 0 || secrets.includes('')) {
    throw new TypeError(
      'a webhook secret is missing or empty: expected at least one (FILLRATE_WEBHOOK_SECRET)',
    )
  }
  const claimed = readSignature(signature, scheme)
  if (claimed === null) return false
  let matches = 0
  for (const secret of secrets) matches |= Number(timingSafeEqual(computeHmac(body, secret, scheme), claimed))
  return matches === 1
}

/** Whether a header has the form of a signature; if not, the body need not be read. */
export const isWellFormedSignature = (
  signature: string | readonly string[] | undefined,
  scheme: SignatureScheme,
): boolean => readSignature(signature, scheme) !== null

/** What a signature must look like, for a message: `64 lowercase hexadecimal digits`. */
export function describeSignature({ algorithm, encoding, prefix }: SignatureScheme): string {
  const form =
    encoding === 'hex'
      ? `${BYTES[algorithm] * 2} lowercase hexadecimal digits`
      : `${BYTES[algorithm]} bytes in base64`
  return prefix === '' ? form : `${prefix} and ${form}`
}

/** The bytes of a signature; null if it has another form. */
function readSignature(
  signature: string | readonly string[] | undefined,
  { algorithm, encoding, prefix }: SignatureScheme,
): Buffer | null {
  const given = typeof signature === 'object' && signature.length === 1 ? signature[0] : signature
  if (typeof given !== 'string' || !given.startsWith(prefix)) return null
  const text = given.slice(prefix.length)
  if (!ALPHABETS[encoding].test(text)) return null
  const bytes = Buffer.from(text, encoding)
  const isWhole = encoding === 'base64' || text.length === bytes.length * 2
  return isWhole && bytes.length === BYTES[algorithm] ? bytes : null
}

const computeHmac = (body: Buffer | string, secret: string, { algorithm }: SignatureScheme): Buffer =>
  createHmac(algorithm, secret).update(body).digest()
