import { ofDeliveries, type JobOfDelivery } from '../../store/delivered-jobs.ts'
import type { StoreTransaction } from '../../store/transaction.ts'

/** What a delivery says of its job. */
export interface Addressed {
  /** Our own identifier, from the webhook's path. */
  readonly job: string | null
  /** The service's, from the body. */
  readonly jobId: string | null
}

/** A job that a delivery may be for. */
export interface Candidate {
  readonly job: JobOfDelivery
  /** Nothing contradicts that it is this one. Otherwise only addresses match its results. */
  readonly isCertain: boolean
}

/**
 * The jobs that a delivery may be for, the likeliest first; none where it is for no job of this database. Pure.
 *
 * The webhook address is ours and names one job, so it outranks an identifier in the body that another job has as well:
 * a service may use one twice. Where the two name different jobs neither is certain. The body is signed and the
 * address is not, so that its job comes first.
 */
export function candidatesOf(delivery: Addressed, known: readonly JobOfDelivery[]): Candidate[] {
  const { job: address, jobId } = delivery
  const addressed = address === null ? undefined : known.find((job) => job.id === address)
  if (addressed && isConsistent(addressed, jobId)) return [{ job: addressed, isCertain: true }]
  const named = jobId === null ? [] : known.filter((job) => job.jobId === jobId)
  const isCertain = address === null && named.length === 1
  const isOpen = (job: JobOfDelivery): boolean => job.members.some((member) => member.open)
  return [...named, ...(addressed ? [addressed] : [])]
    .toSorted((a, b) => Number(isOpen(b)) - Number(isOpen(a)))
    .map((job) => ({ job, isCertain }))
}

/** The jobs that deliveries may be for, with their members. Locked until the end. */
export async function jobsOf(
  tx: StoreTransaction,
  deliveries: readonly Addressed[],
): Promise<JobOfDelivery[]> {
  const byAddress = await ofDeliveries(
    tx,
    deliveries.flatMap((delivery) => delivery.job ?? []),
    [],
  )
  const addressed = new Map(byAddress.map((job) => [job.id, job]))
  // Where the address decides, others with the same identifier need not be read: a service may give all jobs one.
  const jobIds = deliveries.flatMap(({ job, jobId }) => {
    const its = job === null ? undefined : addressed.get(job)
    return jobId === null || (its && isConsistent(its, jobId)) ? [] : [jobId]
  })
  if (jobIds.length === 0) return byAddress
  const byName = await ofDeliveries(tx, [], jobIds)
  return [...byAddress, ...byName.filter((job) => !addressed.has(job.id))]
}

const isConsistent = (job: JobOfDelivery, jobId: string | null): boolean =>
  jobId === null || job.jobId === null || job.jobId === jobId
