import { isTerminalStatus } from '../domain/job.ts'
import { Lookup } from '../domain/lookup.ts'
import { shareCredits } from '../domain/service/credits.ts'
import { roundCredits } from '../domain/spend.ts'
import type { DeliveryJob } from '../store/job-deliveries.ts'
import type { StatedJobCost } from '../store/spend.ts'
import type { DeliverySettlement, JobAnswer } from './match-delivery.ts'

// What the results of a job cost. Each result is counted with what the service says of it, or else with what its description says. Where
// the service says what the whole job has cost, this sum is shared among its results, and what no result explains is counted beside them:
// what is counted of the job is then the sum, whatever was lost, erased or left without a result.

/** A job of which something was delivered, with what each delivery means. */
interface DeliveredJob {
  readonly job: DeliveryJob
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
  for (const one of delivered) {
    const stated = statedSum(one)
    if (stated === null) continue
    const all = byJob.get(one.job.id) ?? []
    const { counted, isSettled, base, countedUnanswered } = readCost(one, all)
    // One that has left the job takes a result only if it has none.
    const open = all.filter(({ isOpen }) => isOpen)
    const payers = open.length > 0 ? open : all
    const others = one.job.single ? 0 : counted - countedUnanswered - base * payers.length
    const shares = shareCredits(roundCredits(stated - others), toWeights(payers))
    for (const answer of all) costs.set(answer, { credits: 0, isSettled })
    payers.forEach((answer, n) => costs.set(answer, { credits: shares[n] ?? 0, isSettled }))
  }
  return answers.map((answer) => {
    const cost = costs.get(answer)
    return cost ? { ...answer, ...cost } : answer
  })
}

/** A sum is shared as the description would bill it, or else among those that were found. */
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
 * @param stored those of them that were stored
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
