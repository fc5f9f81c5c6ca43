import type { Logger } from 'pino'
import { request } from 'undici'
import type { Environment } from '../config/environment.ts'
import { ConfigProblems, type Problem } from '../config/problems.ts'
import { createReceiver } from '../pipeline/receive.ts'
import type { Story } from '../pipeline/explain/story.ts'
import type { Source } from '../sources/source.ts'
import { PreReleaseSchemaError, pendingMigrations } from '../store/migrate.ts'
import type { Database } from '../store/open.ts'
import { openServer } from './http/server.ts'

export interface ReceiverOptions {
  readonly db: Database
  readonly environment: Environment
  readonly log: Logger
  readonly onDelivered: () => void
  /** What the dashboard shows. Null: there is none, as beside a single run, which would open it to all users of the machine. */
  readonly board: {
    readonly sources: () => ReadonlyMap<string, Source>
    /** One row's story. */
    readonly explain: (source: string, key: string) => Promise<Story>
  } | null
}

export interface OpenReceiver {
  /** Where the service reaches the receiver, without a slash at its end. */
  readonly publicUrl: string
  /** Where it listens; null where another Fillrate process on this machine does it for us. */
  readonly listens: string | null
  close(): Promise<void>
}

/** Where the receiver listens when it is not told. */
export const LOOPBACK = '127.0.0.1'

/**
 * Opens the receiver. Where its port is taken by another Fillrate process (`fillrate serve`, another run), that one
 * receives for both: deliveries are kept in the database, not in the process that took them.
 * @throws ConfigProblems where somebody else has the port
 */
export async function openReceiver(options: ReceiverOptions): Promise<OpenReceiver> {
  const { db, environment, log } = options
  const host = environment.host ?? LOOPBACK
  const port = environment.port ?? 0
  try {
    const server = await openServer({
      host,
      port,
      receive: environment.webhookSecrets.length > 0 ? createReceiver(db, environment.webhookSecrets) : null,
      onDelivered: options.onDelivered,
      notReady: async () => {
        const pending = await pendingMigrations(db).catch((error: unknown) =>
          error instanceof PreReleaseSchemaError ? error.message : null,
        )
        if (pending === null) return 'the database does not answer'
        if (typeof pending === 'string') return pending
        return pending.length > 0 ? 'the schema is missing or old: run `fillrate migrate`' : null
      },
      board: options.board && {
        ...options.board,
        db,
        log,
        token: environment.dashboardToken,
        publicUrl: environment.publicUrl,
      },
      log,
    })
    const listens = urlOf(host, server.port)
    log.info({ listens }, 'the receiver is open')
    return { publicUrl: publicUrlOf(environment, listens), listens, close: () => server.close() }
  } catch (error) {
    if ((error as { code?: string }).code !== 'EADDRINUSE') throw error
    const taken = urlOf(host, port)
    if (!(await isFillrate(host, port))) throw new ConfigProblems('the environment', [portTaken(host, port)])
    log.info({ listens: taken }, 'another Fillrate process on this machine receives for this one')
    return { publicUrl: publicUrlOf(environment, taken), listens: null, close: async () => {} }
  }
}

const publicUrlOf = (environment: Environment, listens: string): string =>
  (environment.publicUrl ?? listens).replace(/\/+$/, '')

/** Somebody has the port who is no Fillrate process. */
export const portTaken = (host: string, port: number): Problem => ({
  place: 'FILLRATE_PORT',
  found: `port ${port} of ${host} is taken by another program`,
  expected: 'a free port',
  todo: 'Choose another port, or end the program that has it.',
})

const urlOf = (host: string, port: number): string =>
  `http://${host.includes(':') ? `[${host}]` : host}:${port}`

/** Whether a Fillrate process listens there. */
export async function isFillrate(host: string, port: number): Promise<boolean> {
  try {
    const { body } = await request(`${urlOf(host, port)}/healthz`, {
      headersTimeout: 2_000,
      bodyTimeout: 2_000,
    })
    const answer = (await body.json()) as { service?: unknown }
    return answer.service === 'fillrate'
  } catch {
    return false
  }
}
