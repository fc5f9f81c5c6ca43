import { Delivery, type DeliveryState } from '../../domain/delivery.ts'
import { answerFromResults } from '../../store/answers.ts'
import * as deliveries from '../../store/deliveries.ts'
import * as jobs from '../../store/jobs.ts'
import * as lookups from '../../store/lookups.ts'
import { inTransaction } from '../../store/transaction.ts'
import { parseEvent, type WebhookEvent } from '../../webhook/event.ts'
import type { Deps } from '../deps.ts'
import { withoutErased } from '../forget/in-deliveries.ts'
import { settleDelivery, type Settlement } from './match.ts'

/** Deliveries of one tick, 100 results each. */
const DELIVERIES_A_TICK = 20

export interface SettleResult {
  readonly deliveries: number
  /** Lookups answered. */
  readonly answered: number
  readonly orphaned: number
}

/** Settles deliveries, oldest first: their results answer lookups, and end their jobs. */
export async function tick(
  deps: Pick<Deps, 'db' | 'rules' | 'now' | 'log' | 'meter'>,
): Promise<SettleResult> {
  const { lagsMs, outcomes, ...result } = await settleBatch(deps)
  deps.meter?.settled(lagsMs)
  deps.meter?.lookedUp(outcomes)
  return result
}

interface SettledBatch extends SettleResult {
  /** How long each delivery had waited, in milliseconds. */
  readonly lagsMs: readonly number[]
  readonly outcomes: readonly string[]
}

const NOTHING: SettledBatch = { deliveries: 0, answered: 0, orphaned: 0, lagsMs: [], outcomes: [] }

function settleBatch(deps: Pick<Deps, 'db' | 'rules' | 'now'>): Promise<SettledBatch> {
  return inTransaction(deps.db, async (tx) => {
    const claimed = await deliveries.claim(tx, DELIVERIES_A_TICK)
    if (claimed.length === 0) return NOTHING
    const known = await jobs.ofDeliveries(
      tx,
      claimed.flatMap((delivery) => delivery.job ?? []),
      claimed.flatMap((delivery) => delivery.jobId ?? []),
    )
    const kept = await withoutErased(tx, claimed, known)
    const settled = kept.map((delivery) => settleOne(deps, delivery, known))

    const done = settled.flatMap((one) => one.done ?? [])
    const answers = new Map(
      done.flatMap((one) => one.settlement.answers).map((answer) => [answer.id, answer]),
    )
    await answerFromResults(tx, [...answers.values()])
    await lookups.askSingly(
      tx,
      done.map((one) => one.job.id),
      'the delivery held no result for it',
    )
    await jobs.delivered(
      tx,
      [...new Map(done.map((one) => [one.job.id, one])).values()].map(({ job, jobId, settlement }) => ({
        id: job.id,
        jobId,
        ...settlement.job,
      })),
    )
    await deliveries.close(
      tx,
      settled.map(({ eventId, state, reason }) => ({ eventId, state, reason })),
    )
    return {
      deliveries: claimed.length,
      answered: answers.size,
      orphaned: settled.filter((one) => one.state === Delivery.orphaned).length,
      lagsMs: claimed.map((delivery) => delivery.waitedMs),
      outcomes: [...answers.values()].map((answer) => answer.state),
    }
  })
}

interface SettledDelivery {
  readonly eventId: string
  readonly state: DeliveryState
  readonly reason: string | null
  readonly done?: {
    readonly job: jobs.JobOfDelivery
    readonly jobId: string | null
    readonly settlement: Settlement
  }
}

function settleOne(
  deps: Pick<Deps, 'rules' | 'now'>,
  delivery: deliveries.OpenDelivery,
  known: readonly jobs.JobOfDelivery[],
): SettledDelivery {
  const { eventId } = delivery
  const parsed = parseEvent(Buffer.from(delivery.body))
  if (!parsed.ok) return { eventId, state: Delivery.quarantined, reason: parsed.reason }
  const job = jobOf(parsed.event, delivery, known)
  if (!job)
    return { eventId, state: Delivery.orphaned, reason: 'no job of this database has this identifier' }

  const settlement = settleDelivery(parsed.event, job, deps.rules, deps.now())
  const { unmatched } = settlement
  const done = { job, jobId: parsed.event.jobId, settlement }
  if (unmatched > 0 && settlement.answers.length === 0)
    return {
      eventId,
      state: Delivery.quarantined,
      reason: `none of its ${unmatched} results matches an input of the job`,
    }
  const reason = unmatched > 0 ? `${unmatched} results match no input of the job` : null
  return { eventId, state: Delivery.settled, reason, done }
}

/**
 * The address says which job a delivery is for. Where its body names another job that we know as well, the body
 * counts: it is signed, the address is not.
 */
function jobOf(
  event: WebhookEvent,
  delivery: deliveries.OpenDelivery,
  known: readonly jobs.JobOfDelivery[],
): jobs.JobOfDelivery | undefined {
  const byBody = event.jobId === null ? undefined : known.find((job) => job.jobId === event.jobId)
  return byBody ?? known.find((job) => job.id === delivery.job)
}
