import type { StatusReport } from '../../domain/report/status.ts'
import type { Config } from '../../config/config.ts'
import { describeRefusal } from '../../domain/refusal.ts'
import { type Condition, toConditionReport } from '../../domain/condition.ts'
import type { Observer } from '../../store/condition-facts.ts'
import type { Database } from '../../store/open.ts'
import { createParser, defineCommand } from '../command.ts'
import { readConfig, useDatabase } from '../settings.ts'
import { renderStatus } from '../views/status.ts'

export const statusCommand = defineCommand(
  createParser('status')
    .summary('shows rows by state, fill rate by column, jobs, the rate limit and the next scheduled runs')
    .description(
      'Every row ever picked is in exactly one state: how the row ended when it was picked last. The fill rate ' +
        'is the share of rows whose column holds a value, as the last run counted it.',
    ),
  {
    group: 'inspect',
    examples: [
      ['fillrate status', ''],
      ['fillrate status --json | jq .fill_rate', ''],
    ],

    async handler(call) {
      const { stdout, now } = call
      const config = await readConfig(call)
      const { createStatusReport } = await import('../../actions/status.ts')
      const db = await useDatabase(call)
      const conditions = await listConditions(db, await readDueTimes(config, now()))
      const report: StatusReport = {
        conditions: conditions.map((condition) => toConditionReport(condition, now())),
        ...(await createStatusReport(db, config)),
      }
      return { json: report, text: () => renderStatus(report, stdout, now()) }
    },
  },
)

/** Also that Postgres takes no writes: no process can store that. */
async function listConditions(db: Database, schedules: Observer['schedules']): Promise<Condition[]> {
  const { readConditions } = await import('../../store/conditions.ts')
  const { tryWrite } = await import('../../store/transaction.ts')
  const sqlstate = await tryWrite(db)
  const isRefused = sqlstate !== null && describeRefusal(sqlstate) !== null
  return readConditions(db, { schedules, outage: isRefused ? { details: { sqlstate }, forMs: 0 } : null })
}

/** When each schedule was due last. */
async function readDueTimes(config: Config, now: number) {
  if (config.schedule.length === 0) return new Map<string, number>()
  const { listDueTimes } = await import('../../config/cron.ts')
  return listDueTimes(config.schedule, now)
}
