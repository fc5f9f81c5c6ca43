import type { WakeSignal } from '../util/wake-signal.ts'
import type { Logger } from 'pino'
import { request } from 'undici'
import type { Environment } from '../config/environment.ts'
import { ConfigProblems, type Problem } from '../config/problems.ts'
import { createWebhookReceiver } from '../pipeline/receive.ts'
import type { RowHistory } from '../actions/explain/row-history.ts'
import type { Source } from '../sources/source.ts'
import { PreReleaseSchemaError, pendingMigrations } from '../store/migrate.ts'
import type { Database } from '../store/open.ts'
import { openHttpServer } from './server.ts'
import { isIP } from 'node:net'

export interface ReceiverOptions {
  readonly db: Database
  readonly environment: Environment
  readonly log: Logger
  /** Notified when a delivery is stored. */
  readonly deliveries: Pick<WakeSignal, 'notify'>
  /** What the dashboard shows. Null: there is none, as beside a single run, which would open it to all users of the machine. */
  readonly dashboard: {
    readonly sources: () => ReadonlyMap<string, Source>
    /** One row's story. */
    readonly explain: (source: string, key: string) => Promise<RowHistory>
  } | null
}

export interface Receiver {
  /** Where the service reaches the receiver, without a slash at its end. */
  readonly publicUrl: string
  /** Where it listens; null where another Fillrate process on this machine does it for us. */
  readonly url: string | null
  close(): Promise<void>
}

/** Where the receiver listens when it is not told. */
export const DEFAULT_HOST = '127.0.0.1'

/**
 * Opens the receiver. Where its port is taken by another Fillrate process (`fillrate serve`, another run), that one
 * receives for both: deliveries are kept in the database, not in the process that took them.
 * @throws ConfigProblems where somebody else has the port
 */
export async function openReceiver(options: ReceiverOptions): Promise<Receiver> {
  const { db, environment, log } = options
  const host = environment.host ?? DEFAULT_HOST
  const port = environment.port ?? 0
  try {
    const server = await openHttpServer({
      host,
      port,
      receive:
        environment.webhookSecrets.length > 0 ? createWebhookReceiver(db, environment.webhookSecrets) : null,
      deliveries: options.deliveries,
      notReadyReason: async () => {
        const pending = await pendingMigrations(db).catch((error: unknown) =>
          error instanceof PreReleaseSchemaError ? error.message : null,
        )
        if (pending === null) return 'the database does not answer'
        if (typeof pending === 'string') return pending
        return pending.length > 0 ? 'the schema is missing or old: run `fillrate migrate`' : null
      },
      dashboard: options.dashboard && {
        ...options.dashboard,
        db,
        log,
        token: environment.dashboardToken,
        publicUrl: environment.publicUrl,
      },
      log,
    })
    const url = localUrl(host, server.port)
    log.info({ listens: url }, 'the receiver is open')
    return { publicUrl: publicUrlFor(environment, url), url, close: () => server.close() }
  } catch (error) {
    if ((error as { code?: string }).code !== 'EADDRINUSE') throw error
    const taken = localUrl(host, port)
    if (!(await isOwnProcess(host, port)))
      throw new ConfigProblems('the environment', [portTakenProblem(host, port)])
    log.info({ listens: taken }, 'another Fillrate process on this machine receives for this one')
    return { publicUrl: publicUrlFor(environment, taken), url: null, close: async () => {} }
  }
}

const publicUrlFor = (environment: Environment, listens: string): string =>
  (environment.publicUrl ?? listens).replace(/\/+$/, '')

/** Somebody has the port who is no Fillrate process. */
export const portTakenProblem = (host: string, port: number): Problem => ({
  place: 'FILLRATE_PORT',
  found: `port ${port} of ${host} is taken by another program`,
  expected: 'a free port',
  todo: 'Choose another port, or end the program that has it.',
})

const localUrl = (host: string, port: number): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`

/** Whether a Fillrate process listens there. */
export async function isOwnProcess(host: string, port: number): Promise<boolean> {
  try {
    const { body } = await request(`${localUrl(host, port)}/healthz`, {
      headersTimeout: 2_000,
      bodyTimeout: 2_000,
    })
    const answer = (await body.json()) as { service?: unknown }
    return answer.service === 'fillrate'
  } catch {
    return false
  }
}

/** Whether lookups can go in bulk: the service must reach us, and we must be able to tell its deliveries from others'. */
export interface BulkAvailability {
  readonly possible: boolean
  /** Why not; null when it is possible. */
  readonly reason: string | null
  /** What would make it possible. */
  readonly todo: string | null
}

export function checkBulkAvailability(
  environment: Pick<Environment, 'webhookSecrets' | 'publicUrl' | 'baseUrl'>,
): BulkAvailability {
  if (environment.webhookSecrets.length === 0)
    return {
      possible: false,
      reason: 'FILLRATE_WEBHOOK_SECRET is not set, so no delivery could be verified',
      todo: 'set FILLRATE_WEBHOOK_SECRET to the secret that the service signs its deliveries with',
    }
  if (environment.publicUrl === null && !isLoopback(environment.baseUrl))
    return {
      possible: false,
      reason: 'FILLRATE_PUBLIC_URL is not set, so the service could not deliver results',
      todo: 'set FILLRATE_PUBLIC_URL to the address at which the service reaches this process',
    }
  return { possible: true, reason: null, todo: null }
}

function isLoopback(url: string | null): boolean {
  if (url === null) return false
  const host = new URL(url).hostname.replace(/^\[|\]$/g, '')
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}
