import { Option } from '@commander-js/extra-typings'
import { formatState } from '../../domain/row.ts'
import { Job, type JobState } from '../../domain/job.ts'
import type { StoredJob } from '../../store/job-actions.ts'
import { quoteText } from '../../util/text.ts'
import { type Answer, type CliCallOf, Exit, UsageError, createParser, defineCommand } from '../command.ts'
import { auditCommand, openLog, useDatabase } from '../settings.ts'
import type { Output, TextStyle } from '../terminal.ts'
import { formatCount, pluralize, relativeTime } from '../../util/format.ts'
import { formatChoices, parseWholeFrom } from '../options.ts'
import { compact } from '../views/layout.ts'
import { renderTable } from '../views/table.ts'

const jobsParser = createParser('jobs')
  .usage('[retry|expire JOB]')
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
    new Option('--state <STATE>', `jobs in this state: ${formatChoices(Object.values(Job))}`)
      .choices(Object.values(Job))
      .default(null),
  )
  .option('--limit <N>', 'maximum number of jobs; default: 20', parseWholeFrom(1), 20)

type JobsCall = CliCallOf<typeof jobsParser>

export const jobsCommand = defineCommand(jobsParser, {
  group: 'inspect',
  examples: [
    ['fillrate jobs --state submitted', 'jobs waiting for their results'],
    ['fillrate jobs expire job_4711', 'gives a job up, and reports lookups that may be billed'],
  ],

  handler: (call) => (call.args[0] === undefined ? list(call) : act(call)),
})

async function list(call: JobsCall): Promise<Answer> {
  const { state, limit } = call.flags
  const store = await import('../../store/job-actions.ts')
  const jobs = await store.listJobs(await useDatabase(call), limit, state)
  const none = state === null ? 'No job yet.' : `No job is ${formatState(state)}.`
  return {
    json: { jobs },
    text: () => (jobs.length === 0 ? [none] : renderJobs(jobs, call.stdout, call.now())),
  }
}

const renderJobs = (jobs: readonly StoredJob[], output: Output, now: number): string[] =>
  renderTable(output, jobs, [
    { title: 'job', text: (job) => job.key, minColumns: 8 },
    { title: "service's id", text: (job) => job.job_id ?? '', minColumns: 12 },
    { title: 'run', text: (job) => (job.run === null ? '' : String(job.run)), number: true },
    { title: 'state', text: (job) => formatState(job.state), style: (job) => STATES[job.state][0] },
    { title: 'inputs', text: (job) => formatCount(job.size), number: true },
    { title: 'created', text: (job) => relativeTime(job.created_at, now) },
    { title: 'finished', text: (job) => formatJobEnd(job, now) },
    { title: 'reason', text: (job) => job.reason ?? describeState(job, now), minColumns: 6 },
  ])

async function act(call: JobsCall): Promise<Answer> {
  const { stdout, stderr } = call
  const [action, id] = call.args
  if ((action !== 'retry' && action !== 'expire') || id === undefined)
    throw new UsageError(
      call.command,
      `expected retry or expire and a job, found ${call.args.flatMap((word) => (word === undefined ? [] : quoteText(word))).join(' ')}`,
      '`fillrate jobs` lists them.',
    )
  const { performJobAction } = await import('../../actions/job-actions.ts')
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
    if (!call.flags.json)
      stderr.line(`fillrate: there is no job ${quoteText(id)}. \`fillrate jobs\` lists them.`)
    return { json: { job: id, action, state: null, message }, text: () => [], exit: Exit.usage }
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

/** The look of each state, and the reason shown if a job has none of its own. */
const STATES: Readonly<Record<JobState, readonly [style: TextStyle, reason: string]>> = {
  [Job.submitting]: ['type', 'being submitted'],
  [Job.submitted]: ['type', 'waiting for its results'],
  [Job.completed]: ['good', 'all results received'],
  [Job.failed]: ['bad', 'the service reported the job as failed'],
  [Job.inDoubt]: ['warn', 'unknown whether the service accepted it'],
  [Job.rejected]: ['bad', 'rejected by the service'],
  [Job.expired]: ['bad', 'no results before the deadline'],
}

const describeState = ({ state, poll_at: pollAt }: StoredJob, now: number): string =>
  pollAt === null ? STATES[state][1] : `waiting for its results, fetched ${relativeTime(pollAt, now)}`

/** When the job finished, or its deadline. */
export const formatJobEnd = (job: Pick<StoredJob, 'finished_at' | 'deadline_at'>, now: number): string =>
  job.finished_at === null ? `due ${relativeTime(job.deadline_at, now)}` : relativeTime(job.finished_at, now)
