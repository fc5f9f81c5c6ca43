import type { RunRequest } from '../../src/app.ts'
import type { Environment } from '../../src/config/environment.ts'
import type { Sandbox } from '../../src/sandbox/server.ts'

/** A run with default options. */
export function runRequest(request: Partial<RunRequest> = {}): RunRequest {
  return {
    sources: [],
    limit: null,
    where: null,
    route: 'auto',
    waitMs: 60_000,
    signal: new AbortController().signal,
    ...request,
  }
}

/** The environment of a process that calls a sandbox. */
export const environmentFor = (
  databaseUrl: string,
  sandbox: Pick<Sandbox, 'url' | 'keys' | 'webhookSecret'>,
): Environment => ({
  ...testEnvironment(databaseUrl, sandbox.url),
  apiKeys: sandbox.keys,
  webhookSecrets: [sandbox.webhookSecret],
})

/**
 * A run of a few rows opens as many connections as it may, and opening one costs Postgres more than all statements of the
 * run over it: with ten, the tests took a quarter longer.
 */
export const MAX_TEST_CONNECTIONS = 3

/** The environment of a process that calls another service, which accepts every key and sends no webhooks. */
export const testEnvironment = (databaseUrl: string, baseUrl: string): Environment => ({
  databaseUrl,
  baseUrl,
  apiKeys: ['key'],
  auth: 'bearer',
  clientCertificate: null,
  variable: () => null,
  webhookSecrets: [],
  publicUrl: null,
  port: null,
  host: null,
  dashboardTokens: [],
  trustedProxies: [],
  dashboardUrl: null,
  name: null,
  notifyUrl: null,
  notifySecrets: [],
  logLevel: 'silent',
  maxConnections: MAX_TEST_CONNECTIONS,
})
