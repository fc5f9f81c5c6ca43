import { Delivery } from '../../domain/delivery.ts'
import { afterDelivery, type TerminalStatus } from '../../domain/job.ts'
import { answerFromResults } from '../../store/answers.ts'
import * as deliveries from '../../store/deliveries.ts'
import * as jobs from '../../store/delivered-jobs.ts'
import { isOutage } from '../../store/outage.ts'
import { inTransaction } from '../../store/transaction.ts'
import { parseEvent } from '../../webhook/event.ts'
import type { Deps } from '../deps.ts'
import { withoutErased } from '../forget/in-deliveries.ts'
import { candidatesOf, jobsOf } from './job-of-delivery.ts'
import { mergeAnswers, settleDelivery, type Settlement } from './match.ts'

/** Deliveries of one tick, 100 results each. */
const DELIVERIES_A_TICK = 20

/** Their bodies in all, but for the last: each may be 10 MiB, and all records go in one parameter. */
const BYTES_A_TICK = 8 * 2 ** 20

export interface SettleResult {
  readonly deliveries: number
  /** Lookups answered. */
  readonly answered: number
  readonly orphaned: number
}

type SettleDeps = Pick<Deps, 'db' | 'rules' | 'now' | 'log' | 'meter'>

/** Settles deliveries, oldest first: their results answer lookups, and end their jobs. */
export async function tick(deps: SettleDeps): Promise<SettleResult> {
  const { lagsMs, outcomes, quarantinedResults, ...result } = await settleBatch(
    deps,
    DELIVERIES_A_TICK,
    () => {},
  ).catch((error: unknown) => {
    if (!isOfDelivery(error)) throw error
    return settleOneByOne(deps)
  })
  deps.meter?.settled(lagsMs)
  deps.meter?.lookedUp(outcomes)
  deps.meter?.quarantined(quarantinedResults)
  if (quarantinedResults > 0)
    deps.log.warn(
      { results: quarantinedResults },
      'results that match no input of their job were quarantined',
    )
  return result
}

interface SettledBatch extends SettleResult {
  /** How long each delivery had waited, in milliseconds. */
  readonly lagsMs: readonly number[]
  readonly outcomes: readonly string[]
  readonly quarantinedResults: number
}

const NOTHING: SettledBatch = {
  deliveries: 0,
  answered: 0,
  orphaned: 0,
  lagsMs: [],
  outcomes: [],
  quarantinedResults: 0,
}

/**
 * SQLSTATEs that the data itself can cause: a value or a row that Postgres does not take. Not a missing right, column
 * or disk, for which no delivery is to blame.
 */
const OF_DATA = /^(?:22|23|54)/

/** Whether an error may be that of one delivery, and not of the database: a fault in our own reading is too. */
function isOfDelivery(error: unknown): boolean {
  if (!(error instanceof Error) || isOutage(error)) return false
  const { code } = error as { code?: unknown }
  return typeof code === 'string' ? OF_DATA.test(code) : true
}

/** Settles each delivery by itself, so that one that can't be settled is quarantined alone, and holds up no other. */
async function settleOneByOne(deps: SettleDeps): Promise<SettledBatch> {
  let sum = NOTHING
  for (let n = 0; n < DELIVERIES_A_TICK; n++) {
    let eventId: string | null = null
    const one = await settleBatch(deps, 1, (claimed) => {
      eventId = claimed
    }).catch(async (error: unknown) => {
      if (eventId === null || !isOfDelivery(error)) throw error
      const { code, name } = error as { code?: string; name: string }
      const reason = `it could not be settled: ${code === undefined ? name : `SQLSTATE ${code}`}`
      await deliveries.quarantine(deps.db, eventId, reason)
      deps.log.error({ event: eventId, reason }, 'a delivery was quarantined; the others are settled')
      return { ...NOTHING, deliveries: 1 }
    })
    if (one.deliveries === 0) break
    sum = {
      deliveries: sum.deliveries + one.deliveries,
      answered: sum.answered + one.answered,
      orphaned: sum.orphaned + one.orphaned,
      lagsMs: [...sum.lagsMs, ...one.lagsMs],
      outcomes: [...sum.outcomes, ...one.outcomes],
      quarantinedResults: sum.quarantinedResults + one.quarantinedResults,
    }
  }
  return sum
}

/** @param onClaim is given the first delivery's identifier before anything is made of it */
function settleBatch(
  deps: SettleDeps,
  limit: number,
  onClaim: (eventId: string) => void,
): Promise<SettledBatch> {
  return inTransaction(deps.db, async (tx) => {
    const claimed = await deliveries.claim(tx, limit, BYTES_A_TICK)
    const [first] = claimed
    if (first === undefined) return NOTHING
    onClaim(first.eventId)
    const known = await jobsOf(tx, claimed)
    const kept = await withoutErased(tx, claimed, known)
    const settled = kept.map((delivery) => settleOne(deps, delivery, known))

    const done = settled.flatMap((one) => one.done ?? [])
    const answers = mergeAnswers(done.flatMap((one) => one.settlement.answers))
    await answerFromResults(tx, answers)
    await jobs.delivered(tx, deliveredJobs(done), deps.rules.bulkGraceMs)
    await deliveries.close(tx, settled)
    return {
      deliveries: claimed.length,
      answered: answers.length,
      orphaned: settled.filter((one) => one.state === Delivery.orphaned).length,
      lagsMs: claimed.map((delivery) => delivery.waitedMs),
      outcomes: answers.map((answer) => answer.state),
      quarantinedResults: settled.reduce((count, one) => count + one.quarantinedResults, 0),
    }
  })
}

interface DoneDelivery {
  readonly jobId: string | null
  readonly settlement: Settlement
}

interface SettledDelivery extends deliveries.ClosedDelivery {
  readonly done?: DoneDelivery
}

function settleOne(
  deps: Pick<Deps, 'rules' | 'now'>,
  delivery: deliveries.OpenDelivery,
  known: readonly jobs.JobOfDelivery[],
): SettledDelivery {
  const { eventId } = delivery
  const parsed = parseEvent(Buffer.from(delivery.body))
  if (!parsed.ok)
    return { eventId, state: Delivery.quarantined, reason: parsed.reason, quarantinedResults: 0 }
  const { event } = parsed
  const candidates = candidatesOf({ job: delivery.job, jobId: event.jobId }, known)
  const settlement = settleDelivery(event, candidates, deps.rules, deps.now())
  if (settlement === null)
    return {
      eventId,
      state: Delivery.orphaned,
      reason: 'no job of this database has this identifier',
      quarantinedResults: 0,
    }
  const { unmatched, answers } = settlement
  const isQuarantined = unmatched > 0 && answers.length === 0
  return {
    eventId,
    state: isQuarantined ? Delivery.quarantined : Delivery.settled,
    reason: isQuarantined
      ? `none of its ${unmatched} results matches an input of the job`
      : unmatched > 0
        ? `${unmatched} results match no input of the job`
        : null,
    quarantinedResults: unmatched,
    // What it says of the job counts all the same: that it is over.
    ...(settlement.isItsOwn && { done: { jobId: event.jobId, settlement } }),
  }
}

/** What the deliveries of a batch make of their jobs, each once. */
function deliveredJobs(done: readonly DoneDelivery[]): jobs.DeliveredJob[] {
  return [...Map.groupBy(done, (one) => one.settlement.job.id).values()].map((its) => {
    const [{ settlement }] = its as [DoneDelivery]
    const { id, members } = settlement.job
    const answered = new Set(its.flatMap((one) => one.settlement.answers.map((answer) => answer.id)))
    const unanswered = members.filter((member) => member.open && !answered.has(member.id)).length
    const statuses = its.flatMap((one) => one.settlement.status ?? [])
    const status: TerminalStatus | null = statuses.includes('completed') ? 'completed' : (statuses[0] ?? null)
    return {
      id,
      jobId: its.find((one) => one.jobId !== null)?.jobId ?? null,
      ...afterDelivery(status, unanswered),
      isOpen: unanswered > 0,
    }
  })
}
