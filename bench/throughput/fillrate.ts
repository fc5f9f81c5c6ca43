import pino from 'pino'
import { openApp } from '../../src/app.ts'
import { parseConfig } from '../../src/config/parse.ts'
import type { Outcome, Task } from './contender.ts'
import { crmConfig } from './crm.ts'

/**
 * Fillrate by one route, as `fillrate run` does it.
 * @throws Error when the run did not end with every row in a final state
 */
export async function runFillrate(task: Task, route: 'sync' | 'bulk'): Promise<Outcome> {
  const began = performance.now()
  let statements = 0
  const app = await openApp({
    config: parseConfig(crmConfig(task.concurrency), null),
    environment: {
      databaseUrl: task.databaseUrl,
      baseUrl: task.service.url,
      apiKeys: task.service.keys,
      auth: 'bearer',
      webhookSecrets: [task.service.webhookSecret],
      publicUrl: null,
      port: null,
      host: null,
      dashboardToken: null,
      notifyUrl: null,
      notifySecrets: [],
      logLevel: 'warn',
    },
    log: pino({ level: 'warn' }, pino.destination(2)),
    onStatement: () => statements++,
  })
  const report = await app.run({
    sources: [],
    limit: null,
    where: null,
    route,
    waitMs: 60_000,
    signal: new AbortController().signal,
  })
  await app.close()
  const { waiting, failed } = report.rows
  if (report.status !== 'completed' || waiting + failed > 0)
    throw new Error(`the run ended ${report.status} with ${waiting} rows waiting and ${failed} failed`)
  return { durationMs: performance.now() - began, statements }
}
