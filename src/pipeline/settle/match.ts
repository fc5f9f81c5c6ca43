import { isTerminal, type TerminalStatus } from '../../domain/job.ts'
import { afterResult, type Freshness } from '../../domain/lookup.ts'
import { matchResults } from '../../domain/matching.ts'
import type { ResultAnswer } from '../../store/answers.ts'
import type { JobOfDelivery } from '../../store/delivered-jobs.ts'
import type { WebhookEvent } from '../../webhook/event.ts'
import { readResult, type ResultItem } from '../../webhook/result.ts'
import type { Candidate } from './job-of-delivery.ts'

/** What one delivery means for its job. */
export interface Settlement {
  readonly job: JobOfDelivery
  readonly answers: readonly ResultAnswer[]
  /** It is this job's: nothing contradicts that, or a result of it matched. */
  readonly isItsOwn: boolean
  /** The status that ends the job; null: the delivery does not end it. */
  readonly status: TerminalStatus | null
  /** Results that match none of the job's inputs. */
  readonly unmatched: number
}

/** Whose each result is: the member's index, or null. */
export function matchItems({ job, isCertain }: Candidate, items: readonly ResultItem[]): (number | null)[] {
  return matchResults(
    { emails: job.members.map((member) => member.email), requestIds: job.requestIds, isSingle: job.single },
    items.map((item) => ({
      requestId: item.requestId,
      email: readResult(item.data).email,
      content: item.data,
    })),
    isCertain,
  )
}

/**
 * Matches a delivery's results to the members of the job that it is for: of several that it may be for, to the one of
 * which it holds the most results. Null: there is none. Pure.
 *
 * Only a completed job says that there is no match: an empty result of a failed one, or of one under way, may mean that
 * the work was never done. A delivery that is not certain to be this job's, and holds nothing of it, does not end it.
 */
export function settleDelivery(
  event: Pick<WebhookEvent, 'status' | 'results'>,
  candidates: readonly Candidate[],
  rules: Freshness,
  now: number,
): Settlement | null {
  let best: { readonly candidate: Candidate; readonly places: (number | null)[] } | null = null
  for (const candidate of candidates) {
    const places = matchItems(candidate, event.results)
    if (best === null || matched(places) > matched(best.places)) best = { candidate, places }
  }
  if (best === null) return null
  const { places } = best
  const { job, isCertain } = best.candidate
  const answers: ResultAnswer[] = []
  event.results.forEach((item, at) => {
    const member = job.members[places[at] ?? -1]
    if (!member) return
    const isCompany = member.kind === 'domain'
    // A company may lie under its own name, or beside the identifier.
    const reading = isCompany ? readResult(item.data ?? item.raw, 'company') : readResult(item.data)
    if (reading.fault !== null) return
    if (reading.found)
      answers.push(
        answer(member.id, { type: 'found', record: reading.record, confidence: reading.confidence }),
      )
    else if (event.status === 'completed') answers.push(answer(member.id, { type: 'not_found' }))
  })
  const isItsOwn = isCertain || matched(places) > 0
  return {
    job,
    answers,
    isItsOwn,
    status: isItsOwn && isTerminal(event.status) ? event.status : null,
    unmatched: places.length - matched(places),
  }

  function answer(id: number, result: Parameters<typeof afterResult>[0]): ResultAnswer {
    return { id, job: job.id, ...afterResult(result, rules, now) }
  }
}

const matched = (places: readonly (number | null)[]): number =>
  places.filter((place) => place !== null).length

/** One answer for each lookup: of two a record beats a miss, and else the first stays, as it would one by one. */
export function mergeAnswers(answers: readonly ResultAnswer[]): ResultAnswer[] {
  const merged = new Map<number, ResultAnswer>()
  for (const answer of answers) {
    const before = merged.get(answer.id)
    if (before === undefined || (before.state !== 'found' && answer.state === 'found'))
      merged.set(answer.id, answer)
  }
  return [...merged.values()]
}
