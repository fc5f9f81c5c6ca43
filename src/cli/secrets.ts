/** Names of variables whose values must never be seen. */
const SECRET = [
  'FILLRATE_API_KEY',
  'FILLRATE_WEBHOOK_SECRET',
  'FILLRATE_DASHBOARD_TOKEN',
  'FILLRATE_NOTIFY_URL',
  'FILLRATE_NOTIFY_SECRET',
] as const

/** A shorter one would blot out half of every text, and is no secret worth the name. */
const SHORTEST = 6

/**
 * Takes the secrets of an environment out of a text. No message should hold one to begin with: this is for the message
 * of a library, or of a program error, that nobody has foreseen.
 */
export function secretsMask(env: NodeJS.ProcessEnv): (text: string) => string {
  const secrets = SECRET.flatMap((name) => (env[name] ?? '').split(',').map((one) => one.trim()))
  const addresses = ['DATABASE_URL', 'HTTPS_PROXY', 'HTTP_PROXY', 'https_proxy', 'http_proxy']
  const password = addresses.flatMap((name) => passwordOf(env[name]))
  const hidden = [...secrets, ...password].filter((one) => one.length >= SHORTEST)
  // The longest first: one may begin with another.
  const sorted = [...new Set(hidden)].sort((a, b) => b.length - a.length)
  return (text) => sorted.reduce((masked, secret) => masked.replaceAll(secret, '***'), text)
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
