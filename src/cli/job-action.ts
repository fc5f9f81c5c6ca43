import type { JobAction } from '../actions/job-actions.ts'
import { formatCount, pluralize, quoteText } from '../util/text.ts'
import { Exit, type Answer, type CliCall } from './command.ts'
import { auditCommand, openLog, useDatabase } from './settings.ts'
import { compact } from './views/layout.ts'

/** Cancels or retries a bulk job, and says what becomes of its inputs. @param id Fillrate's or the service's */
export async function actOnJob(call: CliCall, action: JobAction, id: string): Promise<Answer> {
  const { stdout, stderr } = call
  const { performJobAction } = await import('../actions/job-actions.ts')
  const db = await useDatabase(call)
  const log = await openLog(call)
  const message = 'there is no such job'
  const done = await auditCommand(
    db,
    { action: `job ${action}`, parameters: { job: id } },
    () => performJobAction({ db, log }, action, id),
    (result) => ({
      outcome: result === null || result.state === null ? 'failed' : 'done',
      detail: result === null ? message : result.message,
    }),
  )
  if (done === null) {
    if (!call.flags.json) stderr.line(`fillrate: there is no job ${quoteText(id)}.`)
    const json = { job: id, action, state: null, requeued: 0, possibly_billed: 0, message }
    return { json, text: () => [], exit: Exit.usage }
  }
  const mark = done.state === null ? stdout.paint('warn', '!') : stdout.paint('good', '✓')
  const { requeued, possibly_billed: twice } = done
  const billed = `; the service may have processed ${formatCount(twice)} of them, which would be billed twice`
  return {
    json: done,
    text: () =>
      compact([
        `${mark} Job ${done.job}: ${done.message}.`,
        requeued > 0 &&
          `  ${pluralize(requeued, 'input')} will be looked up singly${twice > 0 ? billed : ''}.`,
      ]),
    exit: done.state === null ? Exit.failed : Exit.done,
  }
}
