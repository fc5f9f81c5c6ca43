import { listServicePrefixes, variableOf, listSentValues } from '../config/environment.ts'

/** Variables whose values must never be shown, beside what a service's description sends. */
const SECRET_VARIABLES = [
  'FILLRATE_API_KEY',
  'FILLRATE_WEBHOOK_SECRET',
  'FILLRATE_DASHBOARD_TOKEN',
  'FILLRATE_DASHBOARD_READ_TOKEN',
  'FILLRATE_NOTIFY_URL',
] as const

/** Masking a shorter value would hide half of every text. */
const MIN_SECRET_LENGTH = 6

/**
 * Returns a function that removes the secrets of an environment from a text. No message of ours contains
 * one; this covers messages of libraries and unexpected errors.
 */
export function createSecretMask(env: NodeJS.ProcessEnv): (text: string) => string {
  let sent = listSentValues()
  let secrets = listSecrets(env, sent)
  return (text) => {
    // The description may be read after the log was opened, or again.
    const current = listSentValues()
    if (current.length !== sent.length) [sent, secrets] = [current, listSecrets(env, current)]
    return secrets.reduce((masked, secret) => masked.replaceAll(secret, '***'), text)
  }
}

function listSecrets(env: NodeJS.ProcessEnv, sent: readonly string[]): string[] {
  const ofServices = listServicePrefixes(env).flatMap((prefix) => [
    variableOf({ prefix }, 'API_KEY'),
    variableOf({ prefix }, 'WEBHOOK_SECRET'),
  ])
  const listed = [...SECRET_VARIABLES, ...ofServices].flatMap((name) =>
    (env[name] ?? '').split(',').flatMap((part) => {
      const secret = part.trim()
      // A dashboard token without the name of its holder, the secret of a client without its id.
      return /^FILLRATE_(?:DASHBOARD|(?:.*_)?API_KEY$)/.test(name)
        ? [secret, secret.slice(secret.indexOf(':') + 1)]
        : [secret]
    }),
  )
  const addresses = ['DATABASE_URL', 'HTTPS_PROXY', 'HTTP_PROXY', 'https_proxy', 'http_proxy']
  const password = addresses.flatMap((name) => passwordOf(env[name]))
  // Of what is sent, a secret is what a variable holds.
  const held = new Set(Object.values(env).map((value) => value?.trim()))
  const hidden = [...listed, ...sent.filter((value) => held.has(value)), ...password].filter(
    ({ length }) => length >= MIN_SECRET_LENGTH,
  )
  // The longest first: one can be the prefix of another.
  return [...new Set(hidden)].sort((a, b) => b.length - a.length)
}

function passwordOf(url: string | undefined): string[] {
  const password = URL.parse(url ?? '')?.password ?? ''
  if (password === '') return []
  try {
    return [password, decodeURIComponent(password)]
  } catch {
    return [password]
  }
}
