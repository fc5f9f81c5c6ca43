import { randomUUID } from 'node:crypto'
import { afterSubmit, type SubmitEvent } from '../../../src/domain/job.ts'
import { BUILT_IN_SERVICE } from '../../../src/domain/service/built-in.ts'
import { createWebhookReceiver, type ReceiveWebhook } from '../../../src/pipeline/receive.ts'
import * as store from '../../../src/store/jobs.ts'
import { signWebhook } from '../../../src/webhook/signature.ts'
import type { TestDatabase } from '../../support/clone.ts'
import type { SharedCommand } from './commands.ts'
import type { ModelState } from './model-state.ts'
import { HOUR, lookupKey, record, RULES, type Service } from './model-state.ts'

const SECRET = 'model-secret'

/** Emails of a job: so few that most become jobs as they were picked, and some jobs are made of what was left over. */
const JOB_SIZE = 3
const JOBS_PER_STEP = 100
const { bulk } = BUILT_IN_SERVICE
export const SERVICE = { ...BUILT_IN_SERVICE, bulk: bulk && { ...bulk, size: JOB_SIZE } }

interface OpenJob {
  readonly id: string
  readonly token: string
  readonly emails: readonly string[]
  readonly service: Service
  readonly posted: boolean
  isRecorded: boolean
}

/** Jobs, and the deliveries that the service makes of them. */
export class Jobs {
  readonly #database: TestDatabase
  readonly #model: ModelState
  readonly #receive: ReceiveWebhook
  readonly #jobs: OpenJob[] = []

  constructor(database: TestDatabase, model: ModelState) {
    this.#database = database
    this.#model = model
    this.#receive = createWebhookReceiver(database.db, [SECRET], BUILT_IN_SERVICE, async () => null)
  }

  /** @param posted false: the process dies before the post */
  async submit(run: number, service: Service, posted: boolean): Promise<void> {
    const token = randomUUID()
    const made = await store.createJobs(this.#database.db, {
      run,
      service: 0,
      ids: Array.from({ length: JOBS_PER_STEP }, () => randomUUID()),
      size: JOB_SIZE,
      least: 1,
      token,
      leaseMs: HOUR,
      deadlineMs: HOUR,
    })
    for (const { id, emails } of made) {
      this.#jobs.push({ id, token, emails, service, posted, isRecorded: !posted })
      for (const email of emails) this.#model.request(lookupKey(email, service))
      if (posted) for (const email of emails) this.#model.bill(lookupKey(email, service))
    }
  }

  /** Records the outcome of all submissions that have none. */
  async recordSubmissions(event: SubmitEvent): Promise<void> {
    const waiting = this.#jobs.filter((job) => !job.isRecorded)
    for (const job of waiting) job.isRecorded = true
    await store.recordJobSubmissions(
      this.#database.db,
      waiting.map(({ id, token }) => ({
        id,
        token,
        ...afterSubmit({ attempts: 1 }, event, RULES, Date.now(), 0),
        ...(event.type === 'accepted' && { jobId: `service-${id}` }),
      })),
    )
  }

  /** The service delivers the oldest posted job. @param how with which irregularity */
  async deliver(how: SharedCommand): Promise<void> {
    const at = this.#jobs.findIndex((job) => job.posted)
    const job = this.#jobs[at]
    if (!job) return
    const emails = how === 'deliver_half' ? job.emails.filter((_, n) => n % 2 === 0) : job.emails
    const failed = how === 'deliver_failed'
    const results = emails.map((email) => ({
      request_id: email,
      data: failed ? null : record(email, job.service),
    }))
    const foreign = [
      { request_id: 'never-requested@example.com', data: record('never-requested@example.com', job.service) },
      { request_id: null, data: record('unknown@example.com', job.service) },
    ]
    const event = {
      event_id: randomUUID(),
      job_id: `service-${job.id}`,
      status: failed ? 'failed' : 'completed',
      results: how === 'deliver_foreign' ? [...foreign, ...results] : results,
    }
    const posts = [this.#post(event, job.id)]
    if (how === 'deliver_twice') posts.push(this.#post(event, job.id))
    if (how === 'deliver_foreign')
      posts.push(this.#post({ ...event, event_id: randomUUID(), job_id: 'of-another' }, randomUUID()))
    await Promise.all(posts)
    if (!failed) for (const email of emails) this.#model.return(lookupKey(email, job.service))
    this.#jobs.splice(at, 1)
  }

  #post(event: object, job: string): Promise<unknown> {
    const body = Buffer.from(JSON.stringify(event))
    return this.#receive({ body, signature: signWebhook(body, SECRET), job })
  }
}
