import pino from 'pino'
import { afterSubmit } from '../../../src/domain/job.ts'
import { afterCall } from '../../../src/domain/lookup.ts'
import { toJobInputs } from '../../../src/domain/service/job-inputs.ts'
import { createService } from '../../../src/domain/service/service.ts'
import { callService } from '../../../src/pipeline/look-up/call-service.ts'
import { pollJob } from '../../../src/pipeline/poll.ts'
import { postJob } from '../../../src/pipeline/submit.ts'
import { Breaker } from '../../../src/service/breaker.ts'
import type { LeasedLookup } from '../../../src/store/lookup-leases.ts'
import { clientOf, rawStatus, serveRaw, type RawAnswer } from '../service/loopback-service.ts'

const RULES = { refreshAfterMs: 1, retryNotFoundAfterMs: 1, attempts: 5 }
const log = pino({ level: 'silent' })
const observer = { banMs: 0, sent() {}, answered() {}, lost() {}, end() {} }
export const DEADLINE_MS = 6 * 3_600_000

/** Delivers the results of jobs, which can also be fetched. */
export const DELIVERING = createService({
  name: 'any',
  person: { path: '/person' },
  bulk: { path: '/bulk' },
  webhook: { signature: { header: 'x-signature' } },
  poll: { path: '/jobs/{job_id}' },
})
/** Answers a job with its results. */
export const ANSWERING = createService({
  name: 'any',
  person: { path: '/person' },
  bulk: { path: '/bulk', results: 'answer' },
})

/** A service that answers inputs that begin with `odd` as set, and every other one as a service does. */
export async function serveAnswers() {
  const set: { answer: () => RawAnswer } = { answer: () => rawStatus(500) }
  const service = await serveRaw(({ path, body }) => {
    if (/odd/.test(body + path)) return set.answer()
    if (path === '/bulk') return rawStatus(202, { body: '{"job_id":"j1"}' })
    return path === '/person' ? rawStatus(404, { body: '{}' }) : rawStatus(200, { body: '{}' })
  })
  return { ...service, set }
}

/** Calls through a new client and breaker, as a run does. */
export async function createCalls(
  answer: () => RawAnswer,
  {
    shared,
    service = DELIVERING,
    timeoutMs = 30_000,
  }: {
    shared?: Awaited<ReturnType<typeof serveAnswers>>
    service?: typeof DELIVERING
    timeoutMs?: number
  } = {},
) {
  const target = shared ?? (await serveAnswers())
  target.set.answer = answer
  const client = clientOf(target, { service, timeoutMs })
  const webhookUrl = service === ANSWERING ? null : (job: string) => `http://127.0.0.1/${job}`
  const deps = { adapter: service, client, breaker: new Breaker(), log, webhookUrl }
  const attempts = new Map<number | string, number>()
  const emailOf = (id: number, isOdd: boolean): string => `${isOdd ? 'odd' : 'fine'}${id}@x.example`
  return {
    deps,
    async call(id: number, isOdd: boolean) {
      const lookup = {
        id,
        token: '',
        kind: 'email',
        input: { email: emailOf(id, isOdd) },
        attempts: attempts.get(id) ?? 0,
      } as unknown as LeasedLookup
      const outcome = await callService(deps, lookup, observer, new AbortController().signal)
      if (outcome.event === null)
        return { state: 'accepted', stop: null, type: 'accepted', waitMs: 0, doubt: 0 }
      const fields = afterCall(lookup, outcome.event, RULES, 0, 0)
      attempts.set(id, fields.attempts)
      return {
        state: fields.state as string,
        stop: outcome.stop,
        type: outcome.event.type,
        waitMs: fields.notBefore?.getTime() ?? 0,
        doubt: fields.unconfirmedCalls ?? 0,
      }
    },
    async post(id: number, isOdd: boolean) {
      const job = {
        id: `job${id}`,
        run: 1,
        attempts: attempts.get(`job${id}`) ?? 1,
        ...toJobInputs({ emails: [emailOf(id, isOdd)] }),
      }
      const { event, stop } = await postJob(deps, job, observer)
      const fields = afterSubmit(job, event, RULES, 0, 0)
      attempts.set(job.id, fields.attempts)
      const mayBeBilled = event.type === 'not_accepted' && event.mayBeBilled
      return { state: fields.state as string, stop, waitMs: fields.notBefore?.getTime() ?? 0, mayBeBilled }
    },
    poll: (id: string) =>
      pollJob(
        deps,
        {
          id,
          jobId: id,
          emails: [],
          inputs: [],
          cursor: null,
          pages: 0,
          polls: 1,
          isSingle: false,
          submittedAt: new Date(0),
          deadlineAt: new Date(DEADLINE_MS),
        },
        observer,
      ),
  }
}

export type Calls = Awaited<ReturnType<typeof createCalls>>
