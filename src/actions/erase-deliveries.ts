import { ERASED_TEXT, type Identifier, identifierText, redactStrings } from '../domain/subject.ts'
import { findResultSubjects, NO_TEXT, redactResults, type RedactedResult } from '../pipeline/erasure.ts'
import { lockCandidateJobs } from '../pipeline/match-delivery.ts'
import { redactDeliveries } from '../store/deliveries.ts'
import * as erase from '../store/erase.ts'
import type { Tx } from '../store/transaction.ts'
import type { ForgetTarget } from './forget-target.ts'
import type { Subject } from './forget-subject.ts'

/** Runs one part of the erasure, with all its SQL in one transaction. */
export type RunPart = <T>(act: (tx: Tx) => Promise<T>) => Promise<T>

const ERASED_BODY = JSON.stringify({ erased: 'unparseable, and contained the erased identifier' })

/** Deliveries that are locked in one transaction. */
const DELIVERIES_PER_TRANSACTION = 20

/** Deliveries of which any may be about the subject, with what they are about. */
interface DeliveryBatch {
  readonly unreadable: readonly string[]
  readonly bodies: Parameters<typeof findResultSubjects>[0]
  readonly results: ReturnType<typeof findResultSubjects>
}

/** Visits the deliveries of the jobs of lookups, and those that a pattern occurs in. */
async function visitDeliveries<Seen>(
  runPart: RunPart,
  { ids, pattern }: Pick<Subject, 'ids' | 'pattern'>,
  visit: (tx: Tx, batch: DeliveryBatch) => Promise<Seen> | Seen,
): Promise<Seen[]> {
  const found = await runPart(async (tx) =>
    erase.findDeliveries(tx, await erase.findJobsOfLookups(tx, ids), pattern),
  )
  const seen: Seen[] = []
  for (let n = 0; n < found.length; n += DELIVERIES_PER_TRANSACTION)
    seen.push(
      await runPart(async (tx) => {
        const deliveries = await erase.lockDeliveries(tx, found.slice(n, n + DELIVERIES_PER_TRANSACTION))
        const bodies = deliveries.flatMap((one) => (one.body === null ? [] : [{ ...one, body: one.body }]))
        const unreadable = deliveries.flatMap(({ id, body }) => (body === null ? [id] : []))
        const results = findResultSubjects(bodies, await lockCandidateJobs(tx, deliveries))
        return visit(tx, { unreadable, bodies, results })
      }),
    )
  return seen
}

/** What results that name one of these give as their own identifiers. */
export async function listResultIdentifiers(
  runPart: RunPart,
  targets: readonly ForgetTarget[],
  pattern: string,
): Promise<Identifier[]> {
  const isTarget = createTargetTest(targets)
  const named = await visitDeliveries(runPart, { ids: [], pattern }, (_, { results }) =>
    results.flatMap(({ identifiers }) => (identifiers.some(isTarget) ? identifiers : [])),
  )
  return named.flat()
}

const createTargetTest = (targets: readonly ForgetTarget[]): ((identifier: Identifier) => boolean) => {
  const keys = new Set(targets.map(identifierText))
  return (identifier) => keys.has(identifierText(identifier))
}

/**
 * Removes the results about the subject from deliveries, and mentions of it from the other results. What cannot be read, and is of a job
 * of the subject or holds an identifier, is replaced whole.
 */
export async function eraseInDeliveries(
  runPart: RunPart,
  subject: Subject,
): Promise<{ results: number; bodies: number; mentions: number }> {
  // In a person's result, a company's domain is that of the employer.
  const pattern = subject.isCompany ? NO_TEXT : subject.pattern
  const named = new RegExp(pattern, 'giu')
  const ids = new Set(subject.ids)
  const isTarget = createTargetTest(subject.targets)
  const counts = await visitDeliveries(runPart, { ids: subject.ids, pattern }, async (tx, batch) => {
    const redacted = batch.results.flatMap((result): RedactedResult[] => {
      const isSubject =
        [result.member, ...result.mayBe].some((one) => one !== null && ids.has(one.id)) ||
        result.identifiers.some(isTarget)
      if (isSubject) return [{ ...result, redacted: null }]
      if (JSON.stringify(result.raw).search(named) === -1) return []
      return [{ ...result, redacted: redactStrings(result.raw, (text) => redactText(text, named)) }]
    })
    await redactResults(tx, batch.bodies, redacted)
    await redactDeliveries(
      tx,
      batch.unreadable.map((id) => ({ id, body: ERASED_BODY })),
    )
    const results = redacted.filter((one) => one.redacted === null).length
    return { results, bodies: batch.unreadable.length, mentions: redacted.length - results }
  })
  const total = { results: 0, bodies: 0, mentions: 0 }
  for (const count of counts)
    for (const name of ['results', 'bodies', 'mentions'] as const) total[name] += count[name]
  return total
}

/** A value that is the identifier becomes null: a cell may be filled with it. */
const redactText = (text: string, named: RegExp): string | null => {
  const rest = text.replaceAll(named, ERASED_TEXT)
  return rest !== text && !/\s/.test(text.trim()) ? null : rest
}
