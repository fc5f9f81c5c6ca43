import { INCOMPLETE_PAGES, isTerminalStatus, type TerminalStatus } from '../domain/job.ts'
import { afterResult, type FreshnessPolicy } from '../domain/lookup.ts'
import { isObject } from '../domain/json.ts'
import { matchResults } from '../domain/matching.ts'
import { BUILT_IN_SERVICE } from '../domain/service/built-in.ts'
import type { BulkCall, Service } from '../domain/service/service.ts'
import { findSubject } from '../domain/subject.ts'
import { lockJobsForDeliveries, type DeliveryJob } from '../store/deliveries.ts'
import type { Tx } from '../store/transaction.ts'
import type { DeliveredResult } from '../store/lookup-leases.ts'
import { parseResult, type ParsedResult, type ResultItem, type WebhookEvent } from '../webhook/event.ts'

/** The answer to a lookup of a job. */
export interface JobAnswer extends DeliveredResult {
  readonly job: string
}

/** What one delivery means for its job. */
export interface DeliverySettlement {
  readonly job: DeliveryJob
  readonly answers: readonly JobAnswer[]
  /** What the service says that the whole job has cost; null: nothing. */
  readonly credits: number | null
  /** It belongs to this job: nothing contradicts that, or one of its results matched. */
  readonly isForJob: boolean
  /** The status that ends the job; null: the delivery does not end it. */
  readonly status: TerminalStatus | null
  /** Results that match none of the job's inputs. */
  readonly unmatched: number
}

/** The parts of a service that decide how results are matched. */
type MatchingService = Pick<Service, 'bulk' | 'companyBulk' | 'poll' | 'readDelivery' | 'readers'>

/** The endpoint that a job was submitted to. */
export const bulkCallOf = (
  service: Pick<Service, 'bulk' | 'companyBulk'>,
  { members }: Pick<DeliveryJob, 'members'>,
): BulkCall | null => (isOfCompanies(members) ? service.companyBulk : service.bulk)

const isOfCompanies = (members: DeliveryJob['members']): boolean =>
  members.some(({ kind }) => kind === 'domain')

/**
 * Assigns each result to a member, by index; null: none.
 * @param service null: whatever may be the result of a member is
 * @param options.readings each result, read as one about a person
 * @param options.isWhole false: results are missing, so that their order proves nothing. Default: true
 */
export function matchToMembers(
  { job, isCertain }: JobCandidate,
  items: readonly ResultItem[],
  service: MatchingService | null,
  {
    readings = readAsPeople(items),
    isWhole = true,
  }: { readonly readings?: readonly ParsedResult[]; readonly isWhole?: boolean } = {},
): (number | null)[] {
  const bulk = service && bulkCallOf(service, job)
  // What a service calls an index itself may be counted from 1, or be of something else.
  const hasIndexes = service === null || (bulk?.read ?? service.poll?.read ?? service.readDelivery) != null
  const isCompany = isOfCompanies(job.members)
  const isByEmail = job.members.every(({ kind }) => kind === 'email' || kind === null)
  return matchResults(
    {
      identifiers: job.members.map((member) => member.identifier),
      requestIds: job.requestIds,
      isSingle: job.single,
      isOrdered: isWhole && (bulk === null ? service === null : bulk.isOrdered),
    },
    items.map((item, index) => ({
      requestId: item.requestId,
      index: hasIndexes ? item.index : null,
      names: [...emailOf(readings[index]), ...(isByEmail ? [] : identifiersOf(item, isCompany))],
      content: item.data,
      // An item that is no object was erased, or is nothing that a service has said of an input.
      isMiss: isObject(item.raw) && (isCompany ? isCompanyMiss(item, service) : isEmpty(item.data)),
    })),
    isCertain,
  )
}

const emailOf = (reading: ParsedResult | undefined): string[] =>
  reading?.email == null ? [] : [reading.email]

/** The profile URLs of the person, or the domains of the company, that a record is about. */
const identifiersOf = ({ data, raw }: ResultItem, isCompany: boolean): string[] =>
  findSubject(isCompany ? 'company' : 'person', isCompany ? (data ?? raw) : data).flatMap(({ kind, key }) =>
    kind === 'email' ? [] : [key],
  )

/** Nothing, whatever reads it. */
const isEmpty = (data: unknown): boolean =>
  data === null || (isObject(data) && Object.keys(data).length === 0)

/** A company may be beside the identifier. */
function isCompanyMiss({ data, raw }: ResultItem, service: Pick<Service, 'readers'> | null): boolean {
  const { found, fault } = parseResult(data ?? raw, 'company', service ?? BUILT_IN_SERVICE)
  return !found && fault === null
}

const readAsPeople = (items: readonly ResultItem[]): ParsedResult[] =>
  items.map((item) => parseResult(item.data, 'person', BUILT_IN_SERVICE))

/**
 * Matches a delivery's results to the members of its job, or of the candidate that most results match. Null: there is
 * none. Pure.
 *
 * Only a completed job can report a miss: an empty result of a failed or unfinished job may mean that the work was
 * never done. A delivery that is not certain to belong to this job, and matches nothing of it, does not end it.
 */
export function settleDelivery(
  event: Pick<WebhookEvent, 'status' | 'results' | 'credits'>,
  candidates: readonly JobCandidate[],
  freshness: FreshnessPolicy,
  now: number,
  service: MatchingService & Pick<Service, 'credits'>,
): DeliverySettlement | null {
  let bestMatch: { readonly candidate: JobCandidate; readonly places: (number | null)[] } | null = null
  const readings = readAsPeople(event.results)
  const isWhole = event.status !== INCOMPLETE_PAGES
  for (const candidate of candidates) {
    const memberIndexes = matchToMembers(candidate, event.results, service, { readings, isWhole })
    if (bestMatch === null || countMatched(memberIndexes) > countMatched(bestMatch.places))
      bestMatch = { candidate, places: memberIndexes }
  }
  if (bestMatch === null) return null
  const { places: memberIndexes } = bestMatch
  const { job, isCertain } = bestMatch.candidate
  const answers: JobAnswer[] = []
  const isReadAlike = service.readers.person === BUILT_IN_SERVICE.readers.person
  event.results.forEach((item, index) => {
    const member = job.members[memberIndexes[index] ?? -1]
    if (!member) return
    const isCompany = member.kind === 'domain'
    // A company may be under its own field, or beside the identifier.
    const parsed = isCompany
      ? parseResult(item.data ?? item.raw, 'company', service)
      : ((isReadAlike ? readings[index] : undefined) ?? parseResult(item.data, 'person', service))
    if (parsed.fault !== null) return
    const stated = item.credits ?? null
    if (parsed.found)
      answers.push(
        answer(member, { type: 'found', record: parsed.record, confidence: parsed.confidence }, stated),
      )
    else if (event.status === 'completed') answers.push(answer(member, { type: 'not_found' }, stated))
  })
  const isForJob = isCertain || countMatched(memberIndexes) > 0
  return {
    job,
    answers,
    credits: event.credits ?? null,
    isForJob,
    status: isForJob && isTerminalStatus(event.status) ? event.status : null,
    unmatched: memberIndexes.length - countMatched(memberIndexes),
  }

  function answer(
    { id, kind, open }: DeliveryJob['members'][number],
    result: Parameters<typeof afterResult>[0],
    stated: number | null,
  ): JobAnswer {
    const fields = {
      id,
      job: job.id,
      requestedAt: job.createdAt,
      isOpen: open,
      reserved: (kind === null ? null : job.most?.[kind]) ?? null,
      ...afterResult(result, freshness, now),
    }
    const { credits } = service
    if (stated !== null) return { ...fields, credits: stated }
    // A lookup that costs one credit was counted when its job was accepted.
    if ((credits.isFlat && job.most === null) || kind === null) return fields
    const record = result.type === 'found' ? (result.record as Record<string, unknown>) : null
    return { ...fields, credits: credits.of(kind, record) }
  }
}

const countMatched = (memberIndexes: readonly (number | null)[]): number =>
  memberIndexes.filter((memberIndex) => memberIndex !== null).length

/**
 * Keeps one answer per lookup, and one more of a job that it has left: a record beats a miss, otherwise the first stays, as
 * if applied one by one.
 */
export function mergeAnswers(answers: readonly JobAnswer[]): JobAnswer[] {
  const byLookup = new Map<string, JobAnswer>()
  for (const answer of answers) {
    const key = `${answer.id} ${answer.isOpen}`
    const existing = byLookup.get(key)
    if (existing === undefined || (existing.state !== 'found' && answer.state === 'found'))
      byLookup.set(key, answer)
  }
  return [...byLookup.values()]
}

/** How a delivery refers to its job. */
interface DeliveryAddress {
  /** Whose it is; null: one of several, and its receiver did not know which. */
  readonly service: number | null
  /** Our own key, from the webhook's path. */
  readonly job: string | null
  /** The service's id, from the body. */
  readonly jobId: string | null
}

/** A job that a delivery may belong to. */
interface JobCandidate {
  readonly job: DeliveryJob
  /** Nothing contradicts the assignment. Otherwise only email addresses match its results. */
  readonly isCertain: boolean
}

/**
 * The jobs that a delivery may belong to, the most likely first; none if it is for no job of this database. Pure.
 *
 * The webhook URL is ours and names one job, so it outranks an id in the body that another job has too. Where they
 * name different jobs neither is certain, and the body's comes first: it is signed, the URL is not. A job of
 * another service is none, because services number their jobs as they like.
 */
export function findJobCandidates(delivery: DeliveryAddress, all: readonly DeliveryJob[]): JobCandidate[] {
  const { service, job: urlKey, jobId } = delivery
  const isOwn = (job: DeliveryJob): boolean =>
    service === null ? job.id === urlKey : job.service === service
  const jobs = all.filter(isOwn)
  const urlJob = urlKey === null ? undefined : jobs.find((job) => job.id === urlKey)
  if (urlJob && isConsistent(urlJob, jobId)) return [{ job: urlJob, isCertain: true }]
  const namedJobs = jobId === null ? [] : jobs.filter((job) => job.jobId === jobId)
  const isCertain = urlKey === null && namedJobs.length === 1
  const isOpen = (job: DeliveryJob): boolean => job.members.some((member) => member.open)
  return [...namedJobs, ...(urlJob ? [urlJob] : [])]
    .toSorted((a, b) => Number(isOpen(b)) - Number(isOpen(a)))
    .map((job) => ({ job, isCertain }))
}

/** Locks the jobs that deliveries may belong to, and reads their members. */
export async function lockCandidateJobs(
  tx: Tx,
  deliveries: readonly DeliveryAddress[],
): Promise<DeliveryJob[]> {
  const byUrl = await lockJobsForDeliveries(
    tx,
    deliveries.flatMap((delivery) => delivery.job ?? []),
    [],
  )
  const urlJobs = new Map(byUrl.map((job) => [job.id, job]))
  // If the URL decides, other jobs with the same id need not be read: a service may give all jobs one id.
  const jobIds = deliveries.flatMap(({ service, job, jobId }) => {
    const known = job === null ? undefined : urlJobs.get(job)
    const urlJob = known?.service === service || service === null ? known : undefined
    return jobId === null || (urlJob && isConsistent(urlJob, jobId)) ? [] : [jobId]
  })
  if (jobIds.length === 0) return byUrl
  const byJobId = await lockJobsForDeliveries(tx, [], jobIds)
  return [...byUrl, ...byJobId.filter((job) => !urlJobs.has(job.id))]
}

const isConsistent = (job: DeliveryJob, jobId: string | null): boolean =>
  jobId === null || job.jobId === null || job.jobId === jobId
