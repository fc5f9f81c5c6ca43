import { afterDelivery } from '../../domain/job.ts'
import { afterResult, type Freshness } from '../../domain/lookup.ts'
import { matchResults } from '../../domain/matching.ts'
import type { JobOfDelivery } from '../../store/jobs.ts'
import type { ResultAnswer } from '../../store/answers.ts'
import type { WebhookEvent } from '../../webhook/event.ts'
import { readResult } from '../../webhook/result.ts'

/** What one delivery means for its job. */
export interface Settlement {
  readonly answers: ResultAnswer[]
  readonly job: { readonly state: 'completed' | 'failed'; readonly reason: string | null }
  /** Results that match none of the job's inputs. */
  readonly unmatched: number
}

/**
 * Matches a delivery's results to its job's members. Pure.
 * In a failed job only a result that holds a record counts: an empty one may mean that the work was never done.
 * A member without a result is asked again, singly.
 */
export function settleDelivery(
  event: WebhookEvent,
  job: JobOfDelivery,
  rules: Freshness,
  now: number,
): Settlement {
  const readings = event.results.map((item) => ({ requestId: item.requestId, ...readResult(item.data) }))
  const sameJob = event.jobId === null || job.jobId === null || event.jobId === job.jobId
  const places = matchResults(
    job.members.map((member) => member.email),
    job.requestIds,
    readings,
    sameJob,
  )
  const answers: ResultAnswer[] = []
  readings.forEach((reading, at) => {
    const member = job.members[places[at] ?? -1]
    if (!member || reading.fault !== null) return
    if (reading.found)
      answers.push(
        answer(member.id, { type: 'found', record: reading.record, confidence: reading.confidence }),
      )
    else if (event.status === 'completed') answers.push(answer(member.id, { type: 'not_found' }))
  })
  const answered = new Set(answers.map((one) => one.id))
  const unanswered = job.members.filter((member) => member.open && !answered.has(member.id)).length
  return {
    answers,
    job: afterDelivery(event.status ?? '', unanswered),
    unmatched: places.filter((place) => place === null).length,
  }

  function answer(id: number, result: Parameters<typeof afterResult>[0]): ResultAnswer {
    return { id, job: job.id, ...afterResult(result, rules, now) }
  }
}
