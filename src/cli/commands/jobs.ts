import { Job, type JobState } from '../../domain/job.ts'
import type { StoredJob } from '../../store/jobs.ts'
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
import { formatState, renderTable } from '../views/layout.ts'

const jobsParser = createParser('jobs')
  .summary('the latest bulk jobs and how they ended')
  .description(
    'The latest bulk jobs, newest first. A job in doubt may have reached the service: it is not sent again before its ' +
      'deadline, so that nothing is paid twice.',
  )
  .argument(
    '[retry|expire]',
    'retry: posts at once what the service did not take. expire: waits no longer, and has the inputs asked singly',
  )
  .argument('[JOB]', 'the job to retry or expire')
  .addOption(
    choiceOption(
      '--state <STATE>',
      `only these: ${formatChoices(Object.values(Job))}`,
      Object.values(Job),
      null,
    ),
  )
  .addOption(wholeNumberOption('--limit <N>', 'at the most; default: 20', 1, 20))

type JobsInvocation = InvocationOf<typeof jobsParser>

export const jobsCommand = defineCommand(jobsParser, {
  group: 'look',
  synopsis: '[retry|expire JOB]',
  examples: [
    ['fillrate jobs --state submitted', 'those that wait for their delivery'],
    ['fillrate jobs expire job_4711', 'gives one up; what it may have cost already is told'],
  ],
  environment: DATABASE_VARIABLES,

  handler: (invocation, context) =>
    invocation.args[0] === undefined ? list(invocation, context) : act(invocation, context),
})

async function list({ flags }: JobsInvocation, context: Context): Promise<ExitCode> {
  const { stdout, now } = context
  const store = await import('../../store/jobs.ts')
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
      { title: 'job', text: (job) => job.key, least: 8 },
      { title: "service's id", text: (job) => job.job_id ?? '', least: 12 },
      { title: 'run', text: (job) => (job.run === null ? '' : String(job.run)), number: true },
      { title: 'state', text: (job) => formatState(job.state), style: (job) => STATE_STYLES[job.state] },
      { title: 'emails', text: (job) => formatCount(job.size), number: true },
      { title: 'made', text: (job) => relativeTime(job.created_at, now()) },
      { title: 'ended', text: (job) => endOf(job, now()) },
      { title: 'reason', text: (job) => job.reason ?? PLAIN[job.state], least: 6 },
    ],
    stdout,
  )
  for (const line of lines) stdout.line(line)
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
  const done = await withDatabase(context, (db, environment) =>
    performJobAction({ db, log: openLog(invocation, context, environment) }, action, id),
  )
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
        `  ${pluralize(done.requeued, 'input')} will be asked singly${done.possibly_billed > 0 ? `; the service may have worked on ${formatCount(done.possibly_billed)} of them, which are then paid twice` : ''}.`,
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

/** What a state says by itself, where there is nothing more to say. */
const PLAIN: Readonly<Record<JobState, string>> = {
  [Job.submitting]: 'about to be posted',
  [Job.submitted]: 'waits for its delivery',
  [Job.completed]: 'every input has its result',
  [Job.failed]: 'the service reported the job as failed',
  [Job.inDoubt]: 'it is unknown whether the service has it',
  [Job.rejected]: 'the service would not have it',
  [Job.expired]: 'no delivery before the deadline',
}

/** When it ended, or by when it will. */
const endOf = (job: StoredJob, now: number): string =>
  job.finished_at === null
    ? `at the latest ${relativeTime(job.deadline_at, now)}`
    : relativeTime(job.finished_at, now)
