import * as deliveries from '../store/deliveries.ts'
import {
  afterDelivery,
  Delivery,
  INCOMPLETE_PAGES,
  isTerminalStatus,
  Job,
  type TerminalStatus,
} from '../domain/job.ts'
import { countJobCosts, type StatedJobCost } from '../store/spend.ts'
import { isTransient, inTransaction, type Tx } from '../store/transaction.ts'
import { completeFromDelivery } from '../store/lookup-leases.ts'
import { parseEvent } from '../webhook/event.ts'
import type { Deps } from './deps.ts'
import { dropErased } from './erasure.ts'
import {
  bulkCallOf,
  findJobCandidates,
  lockCandidateJobs,
  mergeAnswers,
  settleDelivery,
  type DeliverySettlement,
  type JobAnswer,
} from './match-delivery.ts'
import { Lookup } from '../domain/lookup.ts'
import { shareCredits } from '../domain/service/service.ts'
import { roundCredits } from '../domain/spend.ts'
import { AT_FIRST } from '../service/inputs-in-a-row.ts'

/** Deliveries per tick, 100 results each. */
const DELIVERIES_PER_TICK = 50

/** Total size of their bodies, without the last one: each may have 10 MiB, and all records go into one parameter. */
const BYTES_PER_TICK = 8 * 2 ** 20

interface SettleResult {
  readonly deliveries: number
  /** Lookups answered. */
  readonly answered: number
}

/** Without a service, those of all are settled. */
type SettleDeps = Pick<Deps, 'adapter' | 'db' | 'policy' | 'now' | 'log' | 'metrics'> &
  Partial<Pick<Deps, 'service'>>

/** Settles deliveries, oldest first: their results answer lookups and finish jobs. */
export async function settleReceived(deps: SettleDeps): Promise<SettleResult> {
  if (!(await deliveries.hasReceived(deps.db, deps.service))) return NOTHING_SETTLED
  const { lagsMs, outcomes, quarantinedResults, ...result } = await settleClaimed(
    deps,
    DELIVERIES_PER_TICK,
    () => {},
  ).catch((error: unknown) => {
    if (!isDeliveryError(error)) throw error
    return settleOneByOne(deps)
  })
  deps.metrics?.recordDeliveryLags(lagsMs)
  deps.metrics?.recordLookups(outcomes)
  deps.metrics?.recordQuarantined(quarantinedResults)
  if (quarantinedResults > 0)
    deps.log.warn(
      { event: 'results_quarantined', results: quarantinedResults },
      'quarantined results that match no input of their job',
    )
  return result
}

interface SettledBatch extends SettleResult {
  /** How long each delivery had waited, in milliseconds. */
  readonly lagsMs: readonly number[]
  readonly outcomes: readonly string[]
  readonly quarantinedResults: number
}

const NOTHING_SETTLED: SettledBatch = {
  deliveries: 0,
  answered: 0,
  lagsMs: [],
  outcomes: [],
  quarantinedResults: 0,
}

/**
 * SQLSTATEs that the data itself can cause: a value or row that Postgres does not accept. Not a missing privilege,
 * column or disk, for which no delivery is to blame.
 */
const DATA_ERROR = /^(?:22|23|54)/

/** Whether a single delivery may cause the error, and not the database. A bug in our own parser counts. */
function isDeliveryError(error: unknown): boolean {
  if (!(error instanceof Error) || isTransient(error)) return false
  const { code } = error as { code?: unknown }
  return typeof code === 'string' ? DATA_ERROR.test(code) : true
}

/** Settles deliveries one at a time, so that a faulty one is quarantined alone and blocks no other. */
async function settleOneByOne(deps: SettleDeps): Promise<SettledBatch> {
  let total = NOTHING_SETTLED
  for (let n = 0; n < DELIVERIES_PER_TICK; n++) {
    let taken: deliveries.ClaimedDelivery | null = null
    const result = await settleClaimed(deps, 1, (claimed) => {
      taken = claimed
    }).catch(async (error: unknown) => {
      if (taken === null || !isDeliveryError(error)) throw error
      const { code, name } = error as { code?: string; name: string }
      const reason = `settling failed: ${code === undefined ? name : `SQLSTATE ${code}`}`
      await quarantine(deps, taken, reason)
      deps.log.error(
        { event: 'delivery_quarantined', delivery: taken.eventId, reason },
        'delivery quarantined; the others are settled',
      )
      return { ...NOTHING_SETTLED, deliveries: 1 }
    })
    if (result.deliveries === 0) break
    total = {
      deliveries: total.deliveries + result.deliveries,
      answered: total.answered + result.answered,
      lagsMs: [...total.lagsMs, ...result.lagsMs],
      outcomes: [...total.outcomes, ...result.outcomes],
      quarantinedResults: total.quarantinedResults + result.quarantinedResults,
    }
  }
  return total
}

/** Quarantines a delivery without people who were erased; whole where they cannot be found in it. */
async function quarantine(
  { db, adapter }: SettleDeps,
  delivery: deliveries.ClaimedDelivery,
  reason: string,
): Promise<void> {
  await inTransaction(db, async (tx) => {
    await dropErased(tx, [delivery], await lockCandidateJobs(tx, [delivery]), adapter)
    await deliveries.quarantineDelivery(tx, delivery.id, reason)
  }).catch(async (error: unknown) => {
    if (!isDeliveryError(error)) throw error
    await deliveries.quarantineDelivery(db, delivery.id, reason)
  })
}

/** @param onClaim called with the first delivery before it is processed */
function settleClaimed(
  deps: SettleDeps,
  limit: number,
  onClaim: (delivery: deliveries.ClaimedDelivery) => void,
): Promise<SettledBatch> {
  return inTransaction(deps.db, async (tx) => {
    const claimed = await deliveries.claimDeliveries(tx, limit, BYTES_PER_TICK, deps.service)
    const [first] = claimed
    if (first === undefined) return NOTHING_SETTLED
    onClaim(first)
    const deliveryJobs = await lockCandidateJobs(tx, claimed)
    const redacted = await dropErased(tx, claimed, deliveryJobs, deps.adapter)
    const settled = redacted.map((delivery) => settleParsed(deps, delivery, deliveryJobs))
    const matchedDeliveries = settled.flatMap(({ matched }) => matched ?? [])
    const unread = await findUnreadJobs(tx, matchedDeliveries)
    const delivered = byJob(matchedDeliveries)
    const merged = mergeAnswers(matchedDeliveries.flatMap(({ settlement }) => settlement.answers))
    const answers = costAnswers(merged, delivered)
    const stored = await completeFromDelivery(tx, answers)
    const costs = toJobCosts(delivered, answers, stored)
    await countJobCosts(
      tx,
      [...costs.values()].flatMap(({ beside }) => beside ?? []),
    )
    await deliveries.completeJobsFromDeliveries(tx, settled, toDeliveredJobs(deps, delivered, costs, unread))
    return {
      deliveries: claimed.length,
      answered: answers.length,
      lagsMs: claimed.map((delivery) => delivery.waitedMs),
      outcomes: answers.map((answer) => answer.state),
      quarantinedResults: settled.reduce((count, { quarantinedResults }) => count + quarantinedResults, 0),
    }
  })
}

interface MatchedDelivery {
  readonly jobId: string | null
  readonly settlement: DeliverySettlement
  /** A result names an input; or none of those that prove that no other would either. */
  readonly names: boolean
  readonly isNameless: boolean
}

interface SettledDelivery extends deliveries.SettledDelivery {
  readonly matched?: MatchedDelivery
}

function settleParsed(
  deps: Pick<Deps, 'policy' | 'now' | 'adapter'>,
  delivery: deliveries.ClaimedDelivery,
  deliveryJobs: readonly deliveries.DeliveryJob[],
): SettledDelivery {
  const { id } = delivery
  const parsed = parseEvent(delivery.body)
  if (!parsed.ok) return { id, state: Delivery.quarantined, reason: parsed.reason, quarantinedResults: 0 }
  const { event } = parsed
  const { service, job } = delivery
  const candidates = findJobCandidates({ service, job, jobId: event.jobId }, deliveryJobs)
  const settlement = settleDelivery(event, candidates, deps.policy, deps.now(), deps.adapter)
  if (settlement === null)
    return {
      id,
      state: Delivery.orphaned,
      reason: 'no job of its service has this id',
      quarantinedResults: 0,
    }
  const { unmatched, answers } = settlement
  const isQuarantined = unmatched > 0 && answers.length === 0
  // Of a job that failed, whose pages are not complete, or whose results belong to their places, none need name an input.
  const isNameless =
    unmatched === event.results.length &&
    unmatched >= AT_FIRST &&
    bulkCallOf(deps.adapter, settlement.job)?.isOrdered !== true &&
    event.status !== 'failed' &&
    event.status !== INCOMPLETE_PAGES
  return {
    id,
    state: isQuarantined ? Delivery.quarantined : Delivery.settled,
    reason: isQuarantined
      ? `none of its ${unmatched} results matches an input of the job`
      : unmatched > 0
        ? `${unmatched} results match no input of the job`
        : null,
    quarantinedResults: unmatched,
    // What it says about the job counts all the same: that it has finished.
    ...(settlement.isForJob && {
      matched: {
        jobId: event.jobId,
        settlement,
        names: unmatched < event.results.length,
        isNameless,
      },
    }),
  }
}

/**
 * Jobs whose deliveries are the description's fault: none of their results names an input, and none of another job of the service
 * ever did. They are paid for, so that their inputs are not requested singly.
 */
async function findUnreadJobs(tx: Tx, matched: readonly MatchedDelivery[]): Promise<ReadonlySet<string>> {
  const named = new Map<number, boolean>()
  for (const { settlement, names } of matched) if (names) named.set(settlement.job.service, true)
  const unread = new Set<string>()
  for (const { settlement, isNameless } of matched) {
    const { id, service } = settlement.job
    if (!isNameless) continue
    if (!named.has(service)) named.set(service, await deliveries.hasSettled(tx, service))
    if (named.get(service) === false) unread.add(id)
  }
  return unread
}

/** A job, and what the deliveries of a batch mean for it. */
interface JobDeliveries {
  readonly job: deliveries.DeliveryJob
  /** The service's identifier of it, if a delivery has one. */
  readonly jobId: string | null
  readonly settlements: readonly DeliverySettlement[]
}

const byJob = (matchedDeliveries: readonly MatchedDelivery[]): JobDeliveries[] =>
  [...Map.groupBy(matchedDeliveries, ({ settlement }) => settlement.job.id).values()].map((jobDeliveries) => {
    const [{ settlement }] = jobDeliveries as [MatchedDelivery]
    return {
      job: settlement.job,
      jobId: jobDeliveries.find(({ jobId }) => jobId !== null)?.jobId ?? null,
      settlements: jobDeliveries.map(({ settlement }) => settlement),
    }
  })

type JobCost = NonNullable<ReturnType<typeof toJobCost>>

/** What the jobs cost of which anything is said, by their keys. */
function toJobCosts(
  delivered: readonly JobDeliveries[],
  answers: readonly JobAnswer[],
  stored: readonly JobAnswer[],
): ReadonlyMap<string, JobCost> {
  const [all, those] = [answers, stored].map((some) => Map.groupBy(some, ({ job }) => job)) as [
    Map<string, JobAnswer[]>,
    Map<string, JobAnswer[]>,
  ]
  return new Map(
    delivered.flatMap((delivery) => {
      const { id } = delivery.job
      const cost = toJobCost(delivery, all.get(id) ?? [], those.get(id) ?? [])
      return cost === null ? [] : [[id, cost] as const]
    }),
  )
}

/** What the deliveries of a batch mean for their jobs. */
const toDeliveredJobs = (
  { adapter, policy }: Pick<SettleDeps, 'adapter' | 'policy'>,
  delivered: readonly JobDeliveries[],
  costs: ReadonlyMap<string, JobCost>,
  unread: ReadonlySet<string>,
): deliveries.DeliveredJob[] =>
  delivered.map(({ job, jobId, settlements }) => {
    const { id, members } = job
    const isUnread = unread.has(id)
    const answered = new Set(settlements.flatMap(({ answers }) => answers.map((answer) => answer.id)))
    const unanswered = members.filter((member) => member.open && !answered.has(member.id)).length
    const statuses = settlements.flatMap(({ status }) => status ?? [])
    const status: TerminalStatus | null = statuses.includes('completed') ? 'completed' : (statuses[0] ?? null)
    const cost = costs.get(id)
    return {
      id,
      jobId,
      ...(isUnread ? { state: Job.unread, reason: 'no input is named' } : afterDelivery(status, unanswered)),
      isOpen: unanswered > 0 && !isUnread,
      // Nothing follows an answer.
      graceMs: (bulkCallOf(adapter, job)?.results ?? 'webhook') === 'webhook' ? policy.bulk.graceMs : 0,
      ...(cost && { credits: cost.credits, creditsStated: cost.stated }),
    }
  })

// What the results of a job cost: what the service says of each result, or else what its description says. Where
// the service states the cost of the job, its results share the sum, and what no result explains is counted beside
// them: the job is counted with the sum, whatever was lost, erased or left without a result.

/** A job of which something was delivered, with what each delivery means. */
interface DeliveredJob {
  readonly job: deliveries.DeliveryJob
  readonly settlements: readonly DeliverySettlement[]
}

/** What the service says that a job has cost, as of its latest delivery that says it; null: nothing. */
const statedSum = ({ job, settlements }: DeliveredJob): number | null =>
  settlements.findLast(({ credits }) => credits !== null)?.credits ?? job.creditsStated

/** What is known of the cost of a job before its answers are stored. */
function readCost({ job, settlements }: DeliveredJob, answers: readonly JobAnswer[]) {
  const isSettled = job.creditsStated !== null && isTerminalStatus(job.state)
  const answered = new Set(answers.map(({ id }) => id))
  const unanswered = job.members.filter(({ id, open }) => open && !answered.has(id)).map(({ id }) => id)
  // A lookup that costs one credit is counted when its job is accepted.
  const base = job.most === null && !isSettled ? 1 : 0
  return {
    counted: job.credits ?? (job.most === null ? job.members.length : 0),
    /** Nothing of its members is in doubt any more: the job was over, and its cost known. */
    isSettled,
    isOver: settlements.some(({ status }) => status !== null) || isTerminalStatus(job.state),
    unanswered,
    base,
    countedUnanswered: base * unanswered.length,
  }
}

/** Answers with what each is counted with. Pure. */
export function costAnswers(answers: readonly JobAnswer[], delivered: readonly DeliveredJob[]): JobAnswer[] {
  const costs = new Map<JobAnswer, Pick<JobAnswer, 'credits' | 'isSettled'>>()
  const byJob = Map.groupBy(answers, ({ job }) => job)
  for (const delivery of delivered) {
    const stated = statedSum(delivery)
    if (stated === null) continue
    const all = byJob.get(delivery.job.id) ?? []
    const { counted, isSettled, base, countedUnanswered } = readCost(delivery, all)
    // One that has left the job takes a result only if it has none.
    const open = all.filter(({ isOpen }) => isOpen)
    const payers = open.length > 0 ? open : all
    const others = delivery.job.single ? 0 : counted - countedUnanswered - base * payers.length
    const shares = shareCredits(roundCredits(stated - others), toWeights(payers))
    for (const answer of all) costs.set(answer, { credits: 0, isSettled })
    payers.forEach((answer, n) => costs.set(answer, { credits: shares[n] ?? 0, isSettled }))
  }
  return answers.map((answer) => {
    const cost = costs.get(answer)
    return cost ? { ...answer, ...cost } : answer
  })
}

/** A sum is shared as the description would bill it, or else among the found lookups. */
function toWeights(answers: readonly JobAnswer[]): number[] {
  const weights = answers.map(({ credits = 1 }) => credits)
  return weights.some((weight) => weight > 0)
    ? weights
    : answers.map(({ state }) => Number(state === Lookup.found))
}

/**
 * What is counted of a job when its answers are stored, and what has to be counted beside them. Null: nothing is said of its cost.
 * Pure.
 * @param answers all that were delivered, with their costs
 * @param stored the answers that were stored
 */
export function toJobCost(
  delivered: DeliveredJob,
  answers: readonly JobAnswer[],
  stored: readonly JobAnswer[],
): {
  readonly credits: number
  /** What the service says that the job has cost. */
  readonly stated: number | null
  readonly beside: StatedJobCost | null
} | null {
  const { job } = delivered
  // What a single lookup costs is counted with its answer.
  if (job.single) return null
  const stated = statedSum(delivered)
  const costs = stored.flatMap(({ credits }) => credits ?? [])
  if (stated === null && costs.length === 0) return null
  const cost = readCost(delivered, answers)
  const { base, isOver, isSettled, unanswered, countedUnanswered } = cost
  const counted = roundCredits(costs.reduce((sum, credits) => sum + credits - base, cost.counted))
  if (stated === null) return { credits: counted, stated, beside: null }
  // Those without a result cost nothing: the sum is known. While more may come, they count as before.
  const freed = isOver ? countedUnanswered : 0
  const credits = roundCredits(stated + countedUnanswered - freed)
  const beside = {
    id: job.id,
    credits: roundCredits(credits - counted),
    unanswered: isOver && !isSettled ? unanswered : [],
  }
  const isNothing = beside.credits === 0 && beside.unanswered.length === 0
  return { credits, stated, beside: isNothing ? null : beside }
}
