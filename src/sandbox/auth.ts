import type { IncomingHttpHeaders } from 'node:http'
import type { SandboxAuthStyle, SandboxOptions } from './options.ts'

/** The active key that a call carries, or why it carries none. */
type AuthOutcome = { readonly key: string } | { readonly problem: string }

function keyFromBasicAuth(encoded: string): string {
  // The key is the user name, the password is empty.
  const [key = '', ...password] = Buffer.from(encoded, 'base64').toString('utf8').split(':')
  return password.length === 1 && password[0] === '' ? key : ''
}

function readCredentials(
  headers: IncomingHttpHeaders,
  query: URLSearchParams | undefined,
): { style: SandboxAuthStyle; key: string } | undefined {
  const authorization = headers.authorization
  if (authorization !== undefined) {
    const space = authorization.indexOf(' ')
    const scheme = authorization.slice(0, Math.max(space, 0)).toLowerCase()
    const credentials = authorization.slice(space + 1).trim()
    if (scheme === 'bearer') return { style: 'bearer', key: credentials }
    if (scheme === 'basic') return { style: 'basic', key: keyFromBasicAuth(credentials) }
  }
  const header = headers['x-api-key']
  if (typeof header === 'string') return { style: 'x-api-key', key: header }
  const key = query?.get('api_key')
  return key === undefined || key === null ? undefined : { style: 'query', key }
}

/** Accepts a key that is active and carried in an accepted style. */
export function authenticate(
  headers: IncomingHttpHeaders,
  query: URLSearchParams | undefined,
  options: Pick<SandboxOptions, 'keys' | 'auth'>,
): AuthOutcome {
  const found = readCredentials(headers, query)
  if (found === undefined) return { problem: `no API key; accepted: ${options.auth.join(', ')}` }
  if (!options.auth.includes(found.style)) {
    return { problem: `the key came as ${found.style}; accepted: ${options.auth.join(', ')}` }
  }
  return options.keys.includes(found.key) ? { key: found.key } : { problem: 'the API key is not valid' }
}
