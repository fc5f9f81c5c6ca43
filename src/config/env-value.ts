import { isIP } from 'node:net'
import { oneOf, quote } from './show.ts'
import { didYouMean } from './suggest.ts'

/** A value that was read, or what a message says of it. `found` must not give a secret away. */
export type Read<Value> =
  | { readonly ok: true; readonly value: Value }
  | { readonly ok: false; readonly found: string; readonly expected: string; readonly todo?: string }

/** One of a few words, in any case. */
export function readWord<const Word extends string>(text: string, words: readonly Word[]): Read<Word> {
  const value = words.find((word) => word === text.toLowerCase())
  if (value !== undefined) return { ok: true, value }
  const todo = didYouMean(text, words)
  return { ok: false, found: quote(text), expected: oneOf(words), ...(todo === null ? {} : { todo }) }
}

export function readPort(text: string): Read<number> {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN
  if (port <= 65_535) return { ok: true, value: port }
  return {
    ok: false,
    found: quote(text),
    expected: 'a port: a whole number from 0 to 65535, 0 for any that is free',
  }
}

export function readHost(text: string): Read<string> {
  const host = text.replace(/^\[(.*)\]$/, '$1')
  if (isIP(host) !== 0 || /^(?:[a-z0-9-]{1,63}\.)*[a-z0-9-]{1,63}$/i.test(host))
    return { ok: true, value: host }
  const expected = "an address or host to listen on, such as '127.0.0.1' or '0.0.0.0'"
  const hasMore = /[:/]/.test(host)
  return {
    ok: false,
    found: quote(text),
    expected,
    ...(hasMore ? { todo: 'The port goes into FILLRATE_PORT.' } : {}),
  }
}

/** Several secrets, comma-separated. `sendable`: they travel in a header, so only visible ASCII will do. */
export function readSecrets(
  text: string,
  what: string,
  { sendable }: { sendable: boolean },
): Read<readonly string[]> {
  const secrets = text
    .split(',')
    .map((secret) => secret.trim())
    .filter((secret) => secret !== '')
  for (const [index, secret] of secrets.entries()) {
    const wrong = wrongWith(secret, sendable)
    if (wrong === null) continue
    const number = secrets.length === 1 ? '' : `, number ${index + 1} of ${secrets.length},`
    return {
      ok: false,
      found: `a ${what}${number} ${wrong} (not shown)`,
      expected: `the ${what} as it was given to you; several, newest first, with commas between them`,
    }
  }
  return { ok: true, value: secrets }
}

/** A shorter token can be guessed; 16 hexadecimal digits can't. */
const TOKEN_LENGTH = 16

/** One secret that travels in a header, and that opens the door to whoever has it. */
export function readToken(text: string): Read<string> {
  const wrong = wrongWith(text, true) ?? (text.length < TOKEN_LENGTH ? `of ${text.length} characters` : null)
  if (wrong === null) return { ok: true, value: text }
  return {
    ok: false,
    found: `a token ${wrong} (not shown)`,
    expected: `${TOKEN_LENGTH} visible ASCII characters or more, without white space`,
    todo: 'Make one with `openssl rand -hex 32`.',
  }
}

function wrongWith(secret: string, sendable: boolean): string | null {
  // Docker's --env-file keeps the quotes that a shell would take off.
  if (/^(["']).*\1$/s.test(secret)) return 'in quotes'
  if (!sendable) return null
  if (/^bearer\s/i.test(secret)) return 'with the word Bearer before it'
  if (/\s/.test(secret)) return 'with white space in it'
  return /^[\x21-\x7e]+$/.test(secret) ? null : 'with characters that a header cannot hold'
}
