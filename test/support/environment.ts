import type { RunRequest } from '../../src/app.ts'
import { type Environment, readEnvironment } from '../../src/config/environment.ts'
import type { Sandbox } from '../../src/sandbox/server.ts'
import { toVariable } from '../../src/util/text.ts'

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

export type ReachableSandbox = Pick<Sandbox, 'url' | 'keys' | 'webhookSecret'>

/** The environment of a process that calls a sandbox. */
export const environmentFor = (databaseUrl: string, sandbox: ReachableSandbox): Environment => ({
  ...testEnvironment(databaseUrl, sandbox.url),
  apiKey: sandbox.keys[0] ?? '',
  webhookSecrets: [sandbox.webhookSecret],
})

type NamedSandboxes = Readonly<Record<string, ReachableSandbox>>

const isOnly = (services: ReachableSandbox | NamedSandboxes): services is ReachableSandbox =>
  typeof services.url === 'string'

/** The variables of the only service, or of several by their names in the configuration. */
export function variablesFor(services: ReachableSandbox | NamedSandboxes): Readonly<Record<string, string>> {
  const listOf = (name: string | null, { url, keys, webhookSecret }: ReachableSandbox) => ({
    [toVariable(name, 'BASE_URL')]: url,
    [toVariable(name, 'API_KEY')]: keys[0] ?? '',
    [toVariable(name, 'WEBHOOK_SECRET')]: webhookSecret,
  })
  if (isOnly(services)) return listOf(null, services)
  return Object.assign({}, ...Object.entries(services).map(([name, one]) => listOf(name, one)))
}

/** The environment of a process that calls several sandboxes. */
export function environmentForServices(databaseUrl: string, sandboxes: NamedSandboxes): Environment {
  const { services = {} } = readEnvironment(variablesFor(sandboxes))
  return { ...testEnvironment(databaseUrl, ''), baseUrl: null, apiKey: null, services }
}

/**
 * A run of a few rows opens as many connections as it may, and opening one costs Postgres more than all statements of the
 * run over it: with ten, the tests took a quarter longer.
 */
export const MAX_TEST_CONNECTIONS = 3

/** The environment of a process that calls another service, which accepts every key and sends no webhooks. */
export const testEnvironment = (databaseUrl: string, baseUrl: string): Environment => ({
  databaseUrl,
  baseUrl,
  apiKey: 'key',
  auth: 'bearer',
  webhookSecrets: [],
  publicUrl: null,
  port: null,
  host: null,
  dashboardTokens: [],
  dashboardUrl: null,
  notifyUrl: null,
  logLevel: 'silent',
  maxConnections: MAX_TEST_CONNECTIONS,
})
