import type { WakeSignal } from '../util/wake-signal.ts'
import type { Log } from '../util/log.ts'
import { request } from 'undici'
import type { Config, ConfigService } from '../config/config.ts'
import { environmentOf, type Environment } from '../config/environment.ts'
import { toWebhookPath } from '../webhook/address.ts'
import type { HttpServerOptions } from './server.ts'
import { ConfigProblems, type Problem } from '../config/problems.ts'
import { configuredAddress } from '../pipeline/deps.ts'
import { createWebhookReceiver } from '../pipeline/receive.ts'
import { pendingMigrations } from '../store/migrate.ts'
import { UnusableSchemaError } from '../store/schema-errors.ts'
import { listServices } from '../store/services.ts'
import type { Database } from '../store/open.ts'
import type { DashboardOptions } from './dashboard/page.ts'

interface ReceivingConfig extends Pick<Config, 'serviceNames'> {
  readonly services: readonly Pick<ConfigService, 'name' | 'adapter'>[]
}

export interface ReceiverOptions {
  readonly db: Database
  readonly environment: Environment
  readonly log: Log
  /** Whose services deliver. */
  readonly config: ReceivingConfig
  /** Notified when a delivery is stored. */
  readonly deliveries: Pick<WakeSignal, 'notify'>
  /** Data for the dashboard. Null beside a single run: the dashboard would be open to every user of the machine. */
  readonly dashboard: Pick<DashboardOptions, 'app' | 'config' | 'metrics' | 'observer'> | null
}

export interface Receiver {
  /** The URL at which the service reaches the receiver, without a trailing slash. */
  readonly publicUrl: string
  /** The URL it listens on; null if another Fillrate process on this machine receives for this one. */
  readonly url: string | null
  close(): Promise<void>
}

/** Default address to listen on. */
export const DEFAULT_HOST = '127.0.0.1'

/**
 * Opens the receiver. If another Fillrate process (`fillrate serve`, another run) has the port, that process receives
 * for both: deliveries are stored in the database, not in the process.
 * @throws ConfigProblems if this process cannot listen there
 */
export async function openReceiver(options: ReceiverOptions): Promise<Receiver> {
  const { db, environment, log, config, dashboard } = options
  const host = environment.host ?? DEFAULT_HOST
  const port = environment.port ?? 0
  // Imported here, because a run that calls one by one needs no server, and would load its modules at the start.
  const { openHttpServer } = await import('./server.ts')
  try {
    const server = await openHttpServer({
      host,
      port,
      ...createReceivers(db, environment, config),
      deliveries: options.deliveries,
      notReadyReason: async () => {
        const pending = await pendingMigrations(db).catch((error: unknown) =>
          error instanceof UnusableSchemaError ? error.message : null,
        )
        if (pending === null) return 'database unavailable'
        if (typeof pending === 'string') return pending
        return pending.length > 0 ? 'the schema is missing or outdated: run `fillrate migrate`' : null
      },
      dashboard: dashboard && {
        ...dashboard,
        db,
        log,
        tokens: environment.dashboardTokens,
        publicUrl: environment.publicUrl,
      },
      log,
    })
    const url = localUrl(host, server.port)
    log.info({ event: 'receiver_listening', listens: url }, 'receiver listening')
    return { publicUrl: publicUrlFor(environment, url), url, close: () => server.close() }
  } catch (error) {
    const problem = await toListenProblem(error, host, port)
    if (problem !== null) throw new ConfigProblems('the environment', [problem], { cause: error })
    const taken = localUrl(host, port)
    log.info(
      { event: 'receiver_shared', listens: taken },
      'another Fillrate process on this machine receives deliveries for this one',
    )
    return { publicUrl: publicUrlFor(environment, taken), url: null, close: async () => {} }
  }
}

/** Receives for each service that has a secret, by its path: in its own reading, and under its own number. */
function createReceivers(
  db: Database,
  environment: Environment,
  config: ReceivingConfig,
): Pick<HttpServerOptions, 'receive' | 'signature'> {
  const receivers = new Map(
    config.services.flatMap(({ name, adapter }) => {
      const { webhookSecrets } = environmentOf(environment, name)
      // Without a secret nothing can be verified, so there is no webhook.
      if (webhookSecrets.length === 0) return []
      const address = configuredAddress(name, config, environment)
      const receive = createWebhookReceiver(
        db,
        webhookSecrets,
        adapter,
        findOwnNumber(db, address, name),
        name,
      )
      return [[toWebhookPath(name), { signature: adapter.signature, receive }] as const]
    }),
  )
  if (receivers.size === 0) return { receive: null, signature: () => undefined }
  return {
    receive: async (post) => {
      const receiver = receivers.get(post.service ?? toWebhookPath(null))
      if (receiver === undefined) throw new Error('no service has this address')
      return receiver.receive(post)
    },
    signature: (path) => receivers.get(path)?.signature,
  }
}

/**
 * Finds the number of a service, and remembers it: by its address, and one of several that has none here by its name. Null: it was
 * never called, or is the only one and has no address here.
 */
function findOwnNumber(
  db: Database,
  address: string | null,
  name: string | null,
): () => Promise<number | null> {
  let known: number | undefined
  return async () => {
    if (address === null && name === null) return null
    const isIt = (service: { readonly host: string; readonly name: string | null }): boolean =>
      address === null ? service.name === name : service.host === address
    known ??= (await listServices(db)).find(isIt)?.id
    return known ?? null
  }
}

const publicUrlFor = (environment: Environment, listens: string): string =>
  (environment.publicUrl ?? listens).replace(/\/+$/, '')

/** Why a process cannot listen there, and what to do. Null: another Fillrate process on this machine does. */
async function toListenProblem(error: unknown, host: string, port: number): Promise<Problem | null> {
  const { code, message, syscall = '' } = error as NodeJS.ErrnoException
  if (!['listen', 'bind', 'getaddrinfo'].includes(syscall)) throw error
  if (code === 'EADDRINUSE')
    return (await isOwnProcess(host, port))
      ? null
      : {
          place: 'FILLRATE_PORT',
          found: `port ${port} of ${host} is in use by another program`,
          expected: 'a free port',
          todo: `Set FILLRATE_PORT or --port to another one, or stop that program: ss -ltnp 'sport = :${port}' names it.`,
        }
  const isForbidden = code === 'EACCES'
  return {
    place: isForbidden ? 'FILLRATE_PORT' : 'FILLRATE_HOST',
    found: `${host}:${port}: ${message}`,
    expected: 'an address and port of this machine that this user may listen on',
    todo: isForbidden ? 'Use a port from 1024.' : 'Correct it, or unset FILLRATE_HOST to listen on loopback.',
  }
}

const localUrl = (host: string, port: number): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`

/** Whether a Fillrate process listens there. */
async function isOwnProcess(host: string, port: number): Promise<boolean> {
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
