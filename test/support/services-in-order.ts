import type { SandboxOptions } from '../../src/sandbox/options.ts'
import { type Sandbox, startSandbox } from '../../src/sandbox/server.ts'
import type { TestDatabase } from './database.ts'
import { environmentFor } from './environment.ts'
import { type Harness, runRequest, startHarness } from './harness.ts'

/** A harness whose configuration has several services, each a sandbox. */
export interface OrderedServices extends Pick<
  Harness,
  'open' | 'run' | 'query' | 'count' | 'close' | 'database'
> {
  readonly sandboxes: Readonly<Record<string, Sandbox>>
}

/** Starts a sandbox for each service, by its name in the configuration. */
export async function startServicesInOrder(options: {
  readonly config: object
  readonly sandboxes: Readonly<Record<string, Partial<SandboxOptions>>>
  readonly prepare: (database: TestDatabase) => Promise<void>
}): Promise<OrderedServices> {
  const { config, prepare } = options
  const harness = await startHarness({ config, prepare })
  const sandboxes: Record<string, Sandbox> = {}
  const services: Record<string, object> = {}
  for (const [name, settings] of Object.entries(options.sandboxes)) {
    const sandbox = await startSandbox(settings)
    sandboxes[name] = sandbox
    const environment = environmentFor(harness.database.url, sandbox)
    const { baseUrl, apiKeys, auth, webhookSecrets } = environment
    services[`FILLRATE_${name.toUpperCase()}_`] = {
      baseUrl,
      apiKeys,
      auth,
      webhookSecrets,
    }
  }
  const open: Harness['open'] = (changes = {}) =>
    harness.open({ ...changes, environment: { ...changes.environment, services: services as never } })
  return {
    ...harness,
    sandboxes,
    open,
    run: async (request) => {
      const app = await open()
      try {
        return await app.run(runRequest({ route: 'sync', ...request }))
      } finally {
        await app.close()
      }
    },
    close: async () => {
      await harness.close()
      await Promise.all(Object.values(sandboxes).map((sandbox) => sandbox.close()))
    },
  }
}
