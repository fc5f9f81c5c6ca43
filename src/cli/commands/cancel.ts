import { Exit, UsageError, createParser, defineCommand, type Answer, type CliCall } from '../command.ts'
import { parseRunNumber, parseText } from '../options.ts'
import { auditCommand, openLog, useDatabase } from '../settings.ts'
import { Run } from '../../domain/run.ts'
import { formatCount, pluralize, quoteText } from '../../util/text.ts'
import { compact } from '../views/layout.ts'

export const cancelCommand = defineCommand(
  createParser('cancel')
    .summary('cancels a run of any process, or a bulk job')
    .description(
      'The process of the run finishes what is under way, and ends the run as interrupted. Nothing is lost: rows ' +
        'that still wait are left to the next run. A scheduled run is not started again before its next time. Live ' +
        'sync opens a new run for later changes; `fillrate pause` stops it. Inputs of a job that is cancelled are ' +
        'looked up singly, and may be billed twice.',
    )
    .argument('[RUN]', 'the number of a run; `fillrate runs` lists them', parseRunNumber)
    .option(
      '--job <ID>',
      'a bulk job instead of a run, by its identifier at the service or here',
      parseText,
      null,
    ),
  {
    group: 'work',
    examples: [
      ['fillrate cancel 12', ''],
      ['fillrate cancel --job job_4711', 'gives a job up'],
    ],

    async handler(call) {
      const { stdout } = call
      const [run] = call.args
      const { job } = call.flags
      if (job !== null && run === undefined) return cancelBulkJob(call, job)
      if (job !== null || run === undefined)
        throw new UsageError(call.command, 'expected a run, or --job and a job')
      const { cancelRun, describeCancelled } = await import('../../actions/cancel.ts')
      const db = await useDatabase(call)
      const cancelled = await auditCommand(
        db,
        { action: 'cancel', parameters: {}, run },
        (actor) => cancelRun(db, run, actor.name),
        describeCancelled,
      )
      const end =
        cancelled.state === Run.running
          ? 'its process finishes what is under way, and ends it'
          : `${cancelled.reason}. What it saved is kept`
      return { json: cancelled, text: () => [`Run ${run} is ${stdout.paint('warn', 'cancelled')}: ${end}.`] }
    },
  },
)

/** Cancels a bulk job, and says what becomes of its inputs. @param id Fillrate's or the service's */
async function cancelBulkJob(call: CliCall, id: string): Promise<Answer> {
  const { stdout, stderr } = call
  const { cancelJob } = await import('../../actions/cancel.ts')
  const db = await useDatabase(call)
  const log = await openLog(call)
  const message = 'there is no such job'
  const done = await auditCommand(
    db,
    { action: 'job cancel', parameters: { job: id } },
    () => cancelJob({ db, log }, id),
    (result) => ({
      outcome: result === null || result.state === null ? 'failed' : 'done',
      detail: result === null ? message : result.message,
    }),
  )
  if (done === null) {
    if (!call.flags.json) stderr.line(`fillrate: there is no job ${quoteText(id)}.`)
    const json = { job: id, state: null, requeued: 0, possibly_billed: 0, message }
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
