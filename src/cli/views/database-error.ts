import type { Problem } from '../../config/problems.ts'
import { describeRefusal } from '../../domain/refusal.ts'
import { describeError } from '../../util/error-text.ts'
import { networkErrorMeaning } from '../../util/network-errors.ts'

interface DatabaseError extends Error {
  readonly code?: string
  readonly syscall?: string
  /** The file that an error of the system is about. */
  readonly path?: string
  /** As pg fills it in, for errors that the server reports. */
  readonly severity?: string
  readonly errors?: readonly unknown[]
}

/**
 * Explains an error of the database; null for any other error. Contains no password: only user, host,
 * port and database of the URL are shown.
 */
export function explainDatabaseError(error: unknown, url: string | undefined): Problem | null {
  if (!(error instanceof Error)) return null
  const { code = '', message, path, severity } = firstOf(error)
  const address = databaseAddress(url)
  const isTimeout = message.includes('timeout exceeded when trying to connect')
  const network = networkErrorMeaning(isTimeout ? 'ETIMEDOUT' : code)
  // A file that the URL names.
  const isOfUrl = path !== undefined && decodeURIComponent(url ?? '').includes(`=${path}`)
  // pg gives no code to what it finds itself, and to a connection that is closed in the middle of a statement.
  const isOfDriver =
    severity === undefined &&
    /SSL|certificate|SASL|client password must be a string|^connection terminated/i.test(message)
  const isOfAuthority =
    severity === undefined &&
    code !== 'CERT_HAS_EXPIRED' &&
    /certificate|altnames/i.test(`${network} ${message}`)
  if (network !== null || isOfUrl || isOfDriver || /^(?:28|3D000|53300|57P03)/.test(code))
    return {
      place: 'DATABASE_URL',
      found: `${address}: ${network ?? message}${code === '' ? '' : ` (${code})`}`,
      expected: 'a reachable Postgres database',
      todo: isOfAuthority
        ? 'Add ?sslmode=verify-full&sslrootcert=/path/ca.pem to DATABASE_URL, with the certificate authority that the provider of the database offers to download, and use the host name for which its certificate is.'
        : `Check that Postgres runs, and the host, port, user, password, database and sslmode: psql "$DATABASE_URL" -c 'select 1' must work. In the password, write @ as %40, : as %3A, / as %2F.`,
    }
  if (code === '42501')
    return {
      place: 'DATABASE_URL',
      found: `${address}: ${message}`,
      expected: 'a user with the required privileges',
      todo: '`fillrate check` lists the statements that grant what is missing.',
    }
  const isOfSchema = /\bfillrate\b/.test(message) && (code === '42P01' || code === '42703')
  return code === '3F000' || isOfSchema ? createSchemaProblem(address) : null
}

/** Settings of the role, the database or the server that end a statement, by SQLSTATE. */
const LIMITING_SETTINGS: Readonly<Record<string, string>> = {
  '57014': 'statement_timeout',
  '55P03': 'lock_timeout',
  '25P04': 'transaction_timeout',
}

/** Explains why Postgres refuses a statement, whatever it is about: a setting, or what it lacks. Null for any other error. */
export function explainRefusal(error: unknown, url: string | undefined): Problem | null {
  if (!(error instanceof Error)) return null
  const first = firstOf(error)
  const setting = LIMITING_SETTINGS[first.code ?? '']
  const refusal = describeRefusal(first.code)
  if (setting === undefined && refusal === null) return null
  return {
    place: setting ?? databaseAddress(url),
    found: describeError(first),
    expected: setting === undefined ? 'a Postgres that takes writes' : 'time for what Fillrate does',
    todo:
      refusal === null
        ? `Look for it with: show ${setting}. \`alter role\` sets it for one role alone.`
        : `${refusal.title}. ${refusal.action}`,
  }
}

/** The schema of Fillrate is missing, or this role does not see it. */
export const createSchemaProblem = (address: string): Problem => ({
  place: 'the schema "fillrate"',
  found: `${address}: missing, older than this version, or hidden from this role`,
  expected: 'the schema of this version',
  todo: 'Run `fillrate migrate`. If it was run, `fillrate check` lists the statements that grant what is missing.',
})

/** Node tries each address of a host and reports all failures; the first is enough. */
function firstOf(error: DatabaseError): DatabaseError {
  const first = error.errors?.[0]
  return first instanceof Error ? firstOf(first) : error
}

/** `user@host:5432/name`, without the password. */
export function databaseAddress(url: string | undefined): string {
  const parsed = URL.parse(url ?? '')
  if (parsed === null) return 'the database'
  const user = parsed.username === '' ? '' : `${parsed.username}@`
  return `${user}${parsed.host || 'localhost'}${parsed.pathname === '/' ? '' : parsed.pathname}`
}
