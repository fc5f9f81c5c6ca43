import { Exit, UsageError, createParser, defineCommand, type Answer, type CliCall } from '../command.ts'
import { parseRunNumber, parseText } from '../options.ts'
import { auditCommand, openLog, useDatabase } from '../settings.ts'
import type { CancelReport } from '../../actions/cancel.ts'
import { Run } from '../../domain/run.ts'
import { type Output, wrapText } from '../terminal.ts'
import { formatCount, pluralize, quoteText } from '../../util/text.ts'
import { compact } from '../views/layout.ts'

/** Longer than a call of the service may take. */
const WAIT_MS = 60_000

export const cancelCommand = defineCommand(
  createParser('cancel')
    .summary('cancels a run of any process, or a bulk job')
    .description(
      'The process of the run finishes what is under way, and ends the run as interrupted. Nothing is lost: rows ' +
        'that still wait are left to the next run. A scheduled run is not started again before its next time. Live ' +
        'sync opens a new run for later changes; `fillrate pause` stops it. Inputs of a job that is cancelled are ' +
        'looked up singly, and may be billed twice.',
    )
    .argument('[RUN]', 'the number of a run; `fillrate runs --state running` lists them', parseRunNumber)
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
    exits: [0, 1, 2, 3, 130],
    onInterrupt: 'no longer waiting for the end of the run, which stays cancelled',

    async handler(call) {
      const { stdout, stderr, signal } = call
      const [run] = call.args
      const { job } = call.flags
      if ((run === undefined) === (job === null))
        throw new UsageError(call.command, 'expected a run, or --job and a job')
      if (job !== null) return cancelBulkJob(call, job)
      if (run === undefined) return Exit.usage
      const { cancelRun } = await import('../../actions/cancel.ts')
      const db = await useDatabase(call)
      const report = await auditCommand(
        db,
        { action: 'cancel', parameters: {}, run },
        (_, actor) =>
          cancelRun(db, {
            run,
            by: actor.name,
            waitMs: WAIT_MS,
            signal,
            onCancelled: () => stderr.live(`Run ${run} is cancelled and finishes what is under way`),
          }),
        ({ state, reason }) => ({
          outcome: 'done',
          detail: state === 'running' ? 'it finishes what is under way' : reason,
        }),
      )
      const open = signal.aborted ? Exit.interrupted : Exit.open
      return {
        json: report,
        text: () => renderCancel(report, stdout),
        exit: report.state === 'running' ? open : Exit.done,
      }
    },
  },
)

/** How a cancelled run ended. */
function renderCancel({ run, reason, state }: CancelReport, output: Output): string[] {
  const { paint } = output
  const more = reason === null ? '.' : `: ${reason}.`
  const words = {
    [Run.running]: `${paint('warn', 'is cancelled')} and still finishes what is under way.`,
    [Run.interrupted]: `${paint('warn', 'interrupted')}${more} What it saved is kept.`,
    [Run.completed]: `${paint('good', 'completed')} before it could be cancelled.`,
    [Run.failed]: `${paint('bad', 'failed')}${more}`,
  }[state]
  return wrapText(`${paint('heading', `Run ${run}`)} ${words}`, output.textColumns)
}

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
