import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'

export interface ListenOptions {
  readonly url: string
  readonly channel: string
  readonly signal: AbortSignal
  readonly onNotified: () => void
  /** The connection was lost, or could not be made; it is made again. */
  readonly onLost: (error: Error) => void
}

const LONGEST_WAIT_MS = 30_000

/**
 * Listens for notifications on a connection of its own, until the signal. Only a hint: whoever is woken by it polls
 * as well, because a notification is lost while the connection is, and none comes through PgBouncer in transaction mode.
 */
export async function listen({ url, channel, signal, onNotified, onLost }: ListenOptions): Promise<void> {
  for (let attempt = 0; !signal.aborted; attempt++) {
    const client = new pg.Client({
      connectionString: url,
      application_name: 'fillrate listener',
      connectionTimeoutMillis: 10_000,
      keepAlive: true,
    })
    const ended = Promise.withResolvers<Error | null>()
    client.on('error', (error) => ended.resolve(error))
    client.on('end', () => ended.resolve(null))
    client.on('notification', onNotified)
    const stop = (): void => ended.resolve(null)
    signal.addEventListener('abort', stop, { once: true })
    try {
      await client.connect()
      await client.query(`listen ${client.escapeIdentifier(channel)}`)
      attempt = 0
      // What was notified while nobody listened.
      onNotified()
      const error = await ended.promise
      if (error !== null) throw error
    } catch (error) {
      if (!signal.aborted) onLost(error as Error)
    } finally {
      signal.removeEventListener('abort', stop)
      await client.end().catch(() => {})
    }
    if (!signal.aborted)
      await sleep(Math.min(LONGEST_WAIT_MS, 1_000 * 2 ** attempt), undefined, { signal }).catch(() => {})
  }
}
