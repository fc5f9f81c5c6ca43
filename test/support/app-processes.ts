import pino from 'pino'
import type { App } from '../../src/app.ts'
import { type HttpServer, type HttpServerOptions, openHttpServer } from '../../src/http/server.ts'
import { WakeSignal } from '../../src/util/wake-signal.ts'

/** Ends a process of a test, and waits until it has. */
export type Stop = () => Promise<void>

/** Starts the daemon of an app, to which no service delivers. */
export function startDaemon(app: App): Stop {
  const stop = new AbortController()
  const done = app.start({
    signal: stop.signal,
    receiver: { publicUrl: 'http://127.0.0.1:1' },
    deliveries: new WakeSignal(),
  })
  return async () => {
    stop.abort()
    await done
  }
}

/** Runs a daemon without a webhook secret until a condition holds, then stops it as SIGTERM does. */
export async function withDaemon(
  open: (changes: { environment: { webhookSecrets: readonly string[] } }) => Promise<App>,
  until: () => Promise<void>,
): Promise<void> {
  const app = await open({ environment: { webhookSecrets: [] } })
  const stop = startDaemon(app)
  try {
    await until()
  } finally {
    await stop()
    await app.close()
  }
}

/** Serves the dashboard and the receiver of an app. */
export async function serveApp(app: App): Promise<{ readonly at: string; readonly stop: Stop }> {
  const stop = new AbortController()
  const listening = Promise.withResolvers<string>()
  const done = app.serve({ signal: stop.signal, onListening: (url) => listening.resolve(url ?? '') })
  return {
    at: (await listening.promise).replace('0.0.0.0', '127.0.0.1'),
    stop: async () => {
      stop.abort()
      await done
    },
  }
}

/** An HTTP server on a free port, without a receiver and a dashboard where none is given. */
export const openTestServer = (options: Partial<HttpServerOptions>): Promise<HttpServer> =>
  openHttpServer({
    host: '127.0.0.1',
    port: 0,
    receive: null,
    signature: () => undefined,
    deliveries: { notify: () => {} },
    notReadyReason: async () => null,
    dashboard: null,
    log: pino({ level: 'silent' }),
    ...options,
  })
