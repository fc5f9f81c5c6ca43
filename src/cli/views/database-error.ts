import type { Problem } from '../../config/problems.ts'

interface DatabaseError extends Error {
  readonly code?: string
  readonly syscall?: string
  /** As pg fills it in, for errors that the server reports. */
  readonly severity?: string
  readonly errors?: readonly unknown[]
}

const EXPECTED = 'a Postgres database that answers'

/** A connection that could not be made: by the code of the system or of Postgres. */
const UNREACHABLE: Readonly<Record<string, readonly [found: string, todo: string]>> = {
  ECONNREFUSED: ['nothing listens there', 'Start Postgres, or correct the host and the port.'],
  ENOTFOUND: ['there is no such host', 'Correct the host.'],
  EAI_AGAIN: ['the host could not be looked up', 'Correct the host, or look at your network.'],
  ETIMEDOUT: ['it does not answer', 'Correct the host and the port, or look at the firewall.'],
  EHOSTUNREACH: ['the host cannot be reached', 'Correct the host, or look at your network.'],
  ENETUNREACH: ['the host cannot be reached', 'Correct the host, or look at your network.'],
  ECONNRESET: ['it closed the connection', 'Is it Postgres that listens there? Some want ?sslmode=require.'],
  '28P01': ['Postgres refuses the user or the password', 'Correct them.'],
  '28000': ['Postgres refuses the user', 'Correct the user, or let it in with pg_hba.conf.'],
  '3D000': ['there is no such database', 'Correct the name, or create it with `createdb`.'],
  '53300': ['Postgres has no connection free', 'Raise max_connections, or end what holds them.'],
  '57P03': ['Postgres is starting or stopping', 'Try again in a moment.'],
}

/**
 * What is wrong with the database, where that is what an error tells; null for any other. Holds no password: of the
 * address only user, host, port and database are shown.
 */
export function explainDatabaseError(error: unknown, url: string | undefined): Problem | null {
  if (!(error instanceof Error)) return null
  const { code = '', message } = firstOf(error)
  const address = databaseAddress(url)
  const unreachable =
    UNREACHABLE[code] ??
    (/timeout exceeded when trying to connect/.test(message) ? UNREACHABLE['ETIMEDOUT'] : undefined)
  if (unreachable) {
    const [found, todo] = unreachable
    return {
      place: 'DATABASE_URL',
      found: `${address}: ${found} (${code || 'no answer'})`,
      expected: EXPECTED,
      todo,
    }
  }
  if (/SASL|client password must be a string/.test(message))
    return {
      place: 'DATABASE_URL',
      found: `${address}: Postgres wants a password, and there is none`,
      expected: 'postgres://user:password@host:5432/name',
      todo: 'Add the password. In it, write @ as %40, : as %3A, / as %2F.',
    }
  if (/SSL|certificate/i.test(message) && isConnecting(error, code))
    return {
      place: 'DATABASE_URL',
      found: `${address}: ${message}`,
      expected: EXPECTED,
      todo: 'Correct sslmode at the end of the address: ?sslmode=disable, require or verify-full.',
    }
  return schemaProblem(code, message, address)
}

function schemaProblem(code: string, message: string, address: string): Problem | null {
  const ours = /\bfillrate\b/.test(message)
  if (code === '3F000' || (ours && (code === '42P01' || code === '42703')))
    return {
      place: 'the schema "fillrate"',
      found: `${address}: it is missing, or older than this version`,
      expected: 'the schema of this version',
      todo: 'Run `fillrate migrate`.',
    }
  if (code === '42501')
    return {
      place: 'DATABASE_URL',
      found: `${address}: ${message}`,
      expected: 'a user with the privileges that are needed',
      todo: ours
        ? 'Grant usage on the schema "fillrate" and all on its tables, or let the user own it.'
        : 'Grant the user what the message names. Creating the schema needs CREATE on the database.',
    }
  return null
}

const isConnecting = (error: DatabaseError, code: string): boolean =>
  error.severity === undefined || code.startsWith('28')

/** Node tries each address of a host and reports all that failed; the first says it. */
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
