import { describeError } from '../util/error-text.ts'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../config/config.ts'
import type { Database } from '../store/open.ts'
import * as processes from '../store/processes.ts'
import { markConfigured } from '../store/source-state.ts'
import { UnusableSchemaError } from '../store/schema-errors.ts'
import type { Log } from '../util/log.ts'
import { readVersion } from '../util/version.ts'

const REPORT_MS = 10_000
/** After a report that failed: until one is stored, the process is not among those that are alive. */
const REPEAT_MS = 1_000
/** How often the process records which sources it has. */
const CONFIGURED_MS = 3_600_000
const STOP_MS = 1_000

/** Reports that this process is alive until it is stopped. */
interface ProcessReports {
  /** Unregisters the process. Never throws. */
  stop(): Promise<void>
}

/**
 * Registers this process with its configuration, and reports every ten seconds that it is alive. It decides nothing, so a
 * failed report is only repeated, a second later.
 * @throws UnusableSchemaError if a newer version has ended the support of this one since the database was opened
 */
export async function startProcessReports(
  deps: { readonly db: Database; readonly log: Log; readonly owner: string },
  { role, config }: { readonly role: processes.ProcessRole; readonly config: Config },
): Promise<ProcessReports> {
  const { db, log, owner } = deps
  const self: processes.FillrateProcess = {
    owner,
    role,
    host: hostname(),
    pid: process.pid,
    version: readVersion(),
    nodeVersion: process.versions.node,
    config: withoutSecrets(config),
    configPath: config.path,
    startedAt: new Date(Date.now() - process.uptime() * 1_000),
  }
  const stopping = new AbortController()
  const { signal } = stopping
  let markedAt = -Infinity
  const report = async (): Promise<number> => {
    try {
      if (!(await processes.touchProcess(db, owner))) await processes.registerProcess(db, self)
      if (performance.now() - markedAt >= CONFIGURED_MS) {
        await markConfigured(db, Object.keys(config.sources))
        markedAt = performance.now()
      }
      return REPORT_MS
    } catch (error) {
      log.debug({ event: 'process_not_reported', reason: describeError(error) }, 'process not reported yet')
      if (error instanceof UnusableSchemaError) throw error
      return REPEAT_MS
    }
  }
  let waitMs = await report()
  const repeat = async (): Promise<void> => {
    while (!signal.aborted) {
      await sleep(waitMs, undefined, { signal, ref: false }).catch(() => {})
      if (!signal.aborted) waitMs = await report().catch(() => REPEAT_MS)
    }
  }
  const reporting = repeat()
  return {
    stop: async () => {
      stopping.abort()
      const deleted = reporting.then(() => processes.deleteProcess(db, owner)).catch(() => {})
      // While Postgres is away, nothing waits for it: the row is deleted an hour later.
      await Promise.race([deleted, sleep(STOP_MS, undefined, { ref: false })])
    },
  }
}

/**
 * The configuration as it may be shown: of whom it notifies what is named here, and of an address (a
 * Slack webhook is a secret) its host.
 */
function withoutSecrets({ services, sources, ...config }: Config): object {
  return {
    ...config,
    services: services.map((service) => ({ ...service, adapter: service.adapter.name })),
    sources: Object.fromEntries(
      Object.entries(sources).map(([name, { steps, ...source }]) => [
        name,
        { ...source, ...(steps.length > 1 && { steps }) },
      ]),
    ),
    notify: config.notify.map(({ form, on, url }) => ({ form, on, url: url && new URL(url).host })),
  }
}
