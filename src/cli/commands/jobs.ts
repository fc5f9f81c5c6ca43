import { formatState } from '../../domain/row.ts'
import { Job, type JobState } from '../../domain/job.ts'
import type { StoredJob } from '../../store/job-actions.ts'
import { quoteText } from '../../util/text.ts'
import {
  type Context,
  DATABASE_VARIABLES,
  Exit,
  type ExitCode,
  type InvocationOf,
  createParser,
  createUsageError,
  defineCommand,
} from '../command.ts'
import { openLog, withDatabase } from '../settings.ts'
import { type TextStyle, writeJson } from '../terminal.ts'
import { formatCount, pluralize, relativeTime } from '../../util/format.ts'
import { choiceOption, formatChoices, wholeNumberOption } from '../options.ts'
import { renderTable } from '../views/layout.ts'

const jobsParser = createParser('jobs')
  .summary('lists the latest bulk jobs and their results')
  .description(
    'The latest bulk jobs, newest first. A job in doubt may have reached the service; it is not sent again before ' +
      'its deadline, so that no lookup is billed twice.',
  )
  .argument(
    '[retry|expire]',
    'retry: submits a rejected job again now. expire: stops waiting, and looks its inputs up singly',
  )
  .argument('[JOB]', 'the job to retry or expire')
  .addOption(
    choiceOption(
      '--state <STATE>',
      `jobs in this state: ${formatChoices(Object.values(Job))}`,
      Object.values(Job),
      null,
    ),
  )
  .addOption(wholeNumberOption('--limit <N>', 'maximum number of jobs; default: 20', 1, 20))

type JobsInvocation = InvocationOf<typeof jobsParser>

export const jobsCommand = defineCommand(jobsParser, {
  group: 'inspect',
  synopsis: '[retry|expire JOB]',
  examples: [
    ['fillrate jobs --state submitted', 'jobs waiting for their webhook'],
    ['fillrate jobs expire job_4711', 'gives a job up, and reports lookups that may be billed'],
  ],
  environment: DATABASE_VARIABLES,

  handler: (invocation, context) =>
    invocation.args[0] === undefined ? list(invocation, context) : act(invocation, context),
})

async function list({ flags }: JobsInvocation, context: Context): Promise<ExitCode> {
  const { stdout, now } = context
  const store = await import('../../store/job-actions.ts')
  const found = await withDatabase(context, (db) => store.listJobs(db, flags.limit, flags.state))
  if (flags.json) {
    writeJson(stdout, { jobs: found })
    return Exit.done
  }
  if (found.length === 0) {
    stdout.line(flags.state === null ? 'No job yet.' : `No job is ${formatState(flags.state)}.`)
    return Exit.done
  }
  const lines = renderTable(
    found,
    [
      { title: 'job', text: (job) => job.key, minColumns: 8 },
      { title: "service's id", text: (job) => job.job_id ?? '', minColumns: 12 },
      { title: 'run', text: (job) => (job.run === null ? '' : String(job.run)), number: true },
      { title: 'state', text: (job) => formatState(job.state), style: (job) => STATE_STYLES[job.state] },
      { title: 'emails', text: (job) => formatCount(job.size), number: true },
      { title: 'created', text: (job) => relativeTime(job.created_at, now()) },
      { title: 'finished', text: (job) => formatEnd(job, now()) },
      { title: 'reason', text: (job) => job.reason ?? describeState(job, now()), minColumns: 6 },
    ],
    stdout,
  )
  stdout.lines(lines)
  return Exit.done
}

async function act(invocation: JobsInvocation, context: Context): Promise<ExitCode> {
  const { flags, args } = invocation
  const { stdout, stderr } = context
  const [action, id] = args
  if ((action !== 'retry' && action !== 'expire') || id === undefined)
    throw createUsageError(
      invocation.command,
      `expected retry or expire and a job, found ${args.flatMap((word) => (word === undefined ? [] : quoteText(word))).join(' ')}`,
      '`fillrate jobs` lists them.',
    )
  const { performJobAction } = await import('../../actions/job-actions.ts')
  const { auditAction, createLocalActor } = await import('../../actions/audit.ts')
  const done = await withDatabase(context, async (db, environment) => {
    const log = await openLog(invocation, context, environment)
    return auditAction(
      db,
      { actor: createLocalActor('command line'), action: `job ${action}`, parameters: { job: id } },
      () => performJobAction({ db, log }, action, id),
      (result) => ({
        outcome: result === null || result.state === null ? 'failed' : 'done',
        detail: result === null ? 'there is no such job' : result.message,
      }),
    )
  })
  if (flags.json) writeJson(stdout, done ?? { job: id, action, state: null, message: 'there is no such job' })
  if (done === null) {
    if (!flags.json) stderr.line(`fillrate: there is no job ${quoteText(id)}. \`fillrate jobs\` lists them.`)
    return Exit.usage
  }
  if (!flags.json) {
    const mark = done.state === null ? stdout.paint('warn', '!') : stdout.paint('good', '✓')
    stdout.line(`${mark} Job ${done.job}: ${done.message}.`)
    if (done.requeued > 0)
      stdout.line(
        `  ${pluralize(done.requeued, 'input')} will be looked up singly${done.possibly_billed > 0 ? `; the service may have processed ${formatCount(done.possibly_billed)} of them, which would be billed twice` : ''}.`,
      )
  }
  return done.state === null ? Exit.failed : Exit.done
}

const STATE_STYLES: Readonly<Record<JobState, TextStyle>> = {
  [Job.submitting]: 'type',
  [Job.submitted]: 'type',
  [Job.completed]: 'good',
  [Job.failed]: 'bad',
  [Job.inDoubt]: 'warn',
  [Job.rejected]: 'bad',
  [Job.expired]: 'bad',
}

/** The reason shown if a job has none of its own. */
const STATE_REASONS: Readonly<Record<JobState, string>> = {
  [Job.submitting]: 'being submitted',
  [Job.submitted]: 'waiting for its webhook',
  [Job.completed]: 'all results received',
  [Job.failed]: 'the service reported the job as failed',
  [Job.inDoubt]: 'unknown whether the service accepted it',
  [Job.rejected]: 'rejected by the service',
  [Job.expired]: 'no webhook before the deadline',
}

const describeState = ({ state, poll_at: pollAt }: StoredJob, now: number): string =>
  pollAt === null ? STATE_REASONS[state] : `waiting for its results, fetched ${relativeTime(pollAt, now)}`

/** When the job finished, or its deadline. */
const formatEnd = (job: StoredJob, now: number): string =>
  job.finished_at === null ? `due ${relativeTime(job.deadline_at, now)}` : relativeTime(job.finished_at, now)
