import pino from 'pino'
import { openApp } from '../../src/app.ts'
import { parseConfig } from '../../src/config/load.ts'
import { environmentFor, runRequest } from '../../test/support/environment.ts'
import type { Outcome, Task } from './candidate.ts'
import { crmConfig } from './crm.ts'

/**
 * Runs Fillrate by one route, as `fillrate run` does.
 * @throws Error if the run did not end with every row in a final state
 */
export async function runFillrate(task: Task, route: 'sync' | 'bulk'): Promise<Outcome> {
  const startedAt = performance.now()
  let statements = 0
  const app = await openApp({
    config: parseConfig(crmConfig(task.concurrency), null),
    environment: { ...environmentFor(task.databaseUrl, task.service), logLevel: 'warn' },
    log: pino({ level: 'warn' }, pino.destination(2)),
    onStatement: () => statements++,
  })
  const report = await app.run(runRequest({ route }))
  await app.close()
  const { waiting, failed } = report.rows
  if (report.status !== 'completed' || waiting + failed > 0)
    throw new Error(`the run ended ${report.status} with ${waiting} rows waiting and ${failed} failed`)
  return { durationMs: performance.now() - startedAt, statements }
}
