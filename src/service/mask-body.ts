/** Masking a shorter value would hide half of every text. */
const MIN_MASKED_LENGTH = 6

/**
 * The body of an answer without what authenticated its request, for the errors that show or store it: some services send
 * back what they got. Records are left as they are, since a second secret may be a word of theirs.
 */
export function maskBody(body: Buffer, secrets: readonly string[]): Buffer {
  const forms = secrets
    .filter(({ length }) => length >= MIN_MASKED_LENGTH)
    .flatMap((secret) => [
      secret,
      encodeURIComponent(secret),
      // Of HTTP Basic, where the secret is the user's name.
      Buffer.from(`${secret}:`).toString('base64'),
    ])
  const found = [...new Set(forms)].filter((form) => body.includes(form))
  if (found.length === 0) return body
  const text = body.toString('latin1')
  return Buffer.from(
    found.reduce((masked, form) => masked.replaceAll(form, '***'), text),
    'latin1',
  )
}
