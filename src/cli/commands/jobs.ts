import { Job, type JobState } from '../../domain/job.ts'
import * as store from '../../store/jobs.ts'
import { quote } from '../../config/show.ts'
import { actOnJob } from '../../pipeline/act-on-job.ts'
import { usageOf, type Command } from '../command.ts'
import type { Context } from '../context.ts'
import { withDatabase } from '../database.ts'
import { Exit, type ExitCode } from '../exit-codes.ts'
import { writeJson } from '../render/json.ts'
import { count, counted, distance } from '../../domain/numbers.ts'
import type { Style } from '../render/paint.ts'
import { stateWords } from '../render/states.ts'
import { table } from '../render/table.ts'
import { openLog } from '../settings.ts'
import { UsageError } from '../usage-error.ts'

export async function jobs(command: Command<'jobs'>, context: Context): Promise<ExitCode> {
  if (command.words.length > 0) return act(command, context)
  const { flags } = command
  const { stdout, now } = context
  const list = await withDatabase(context, (db) => store.list(db, flags.limit, flags.state))
  if (flags.json) {
    writeJson(stdout, { jobs: list })
    return Exit.done
  }
  if (list.length === 0) {
    stdout.line(flags.state === null ? 'No job yet.' : `No job is ${stateWords(flags.state)}.`)
    return Exit.done
  }
  const lines = table(
    list,
    [
      { title: 'job', text: (job) => job.id, least: 8 },
      { title: "service's id", text: (job) => job.job_id ?? '', least: 12 },
      { title: 'run', text: (job) => (job.run === null ? '' : String(job.run)), number: true },
      { title: 'state', text: (job) => stateWords(job.state), style: (job) => STATE_STYLES[job.state] },
      { title: 'emails', text: (job) => count(job.size), number: true },
      { title: 'made', text: (job) => distance(job.created_at, now()) },
      { title: 'ended', text: (job) => endOf(job, now()) },
      { title: 'reason', text: (job) => job.reason ?? PLAIN[job.state], least: 6 },
    ],
    stdout,
  )
  for (const line of lines) stdout.line(line)
  return Exit.done
}

async function act(command: Command<'jobs'>, context: Context): Promise<ExitCode> {
  const { flags, words } = command
  const { stdout, stderr } = context
  const [action, id] = words
  if ((action !== 'retry' && action !== 'expire') || id === undefined)
    throw new UsageError(`expected retry or expire and a job, found ${words.map(quote).join(' ')}`, {
      usage: usageOf('jobs'),
      help: 'fillrate jobs --help',
      suggestion: '`fillrate jobs` lists them.',
    })
  const done = await withDatabase(context, (db, environment) =>
    actOnJob({ db, log: openLog(command, context, environment) }, action, id),
  )
  if (flags.json) writeJson(stdout, done ?? { job: id, action, state: null, message: 'there is no such job' })
  if (done === null) {
    if (!flags.json) stderr.line(`fillrate: there is no job ${quote(id)}. \`fillrate jobs\` lists them.`)
    return Exit.usage
  }
  if (!flags.json) {
    const mark = done.state === null ? stdout.paint('warn', '!') : stdout.paint('good', '✓')
    stdout.line(`${mark} Job ${done.job}: ${done.message}.`)
    if (done.requeued > 0)
      stdout.line(
        `  ${counted(done.requeued, 'input')} will be asked singly${done.possibly_billed > 0 ? `; the service may have worked on ${count(done.possibly_billed)} of them, which are then paid twice` : ''}.`,
      )
  }
  return done.state === null ? Exit.failed : Exit.done
}

const STATE_STYLES: Readonly<Record<JobState, Style>> = {
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
const endOf = (job: store.StoredJob, now: number): string =>
  job.finished_at === null
    ? `at the latest ${distance(job.deadline_at, now)}`
    : distance(job.finished_at, now)
