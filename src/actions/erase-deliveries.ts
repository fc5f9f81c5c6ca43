import { ERASED_TEXT, identifierText, redactStrings } from '../domain/subject.ts'
import {
  findResultSubjects,
  redactResults,
  type DeliveryBody,
  type RedactedResult,
} from '../pipeline/erasure.ts'
import { lockCandidateJobs } from '../pipeline/match-delivery.ts'
import * as erase from '../store/erase.ts'
import type { Tx } from '../store/transaction.ts'
import type { ForgetTarget } from './forget-target.ts'

/** Runs one part of the erasure, with all its SQL in one transaction. */
export type RunPart = <T>(act: (tx: Tx) => Promise<T>) => Promise<T>

const ERASED_BODY = JSON.stringify({ erased: 'unparseable, and contained the erased identifier' })

/** Deliveries whose bodies are rewritten in one transaction. */
const DELIVERIES_PER_TRANSACTION = 20

/** Removes the results of erased lookups from deliveries, and mentions of the subject from the other results. */
export async function eraseInDeliveries(
  runPart: RunPart,
  ids: readonly number[],
  targets: readonly ForgetTarget[],
  pattern: string,
): Promise<{ results: number; bodies: number; mentions: number }> {
  const deliveryIds = await runPart(async (tx) =>
    erase.findDeliveries(tx, await erase.findJobsOfLookups(tx, ids), pattern),
  )
  const total = { results: 0, bodies: 0, mentions: 0 }
  for (let n = 0; n < deliveryIds.length; n += DELIVERIES_PER_TRANSACTION) {
    const batch = deliveryIds.slice(n, n + DELIVERIES_PER_TRANSACTION)
    const erasedCounts = await runPart((tx) => eraseInDeliveryBatch(tx, batch, ids, targets, pattern))
    total.results += erasedCounts.results
    total.bodies += erasedCounts.bodies
    total.mentions += erasedCounts.mentions
  }
  return total
}

async function eraseInDeliveryBatch(
  tx: Tx,
  deliveryIds: readonly string[],
  ids: readonly number[],
  targets: readonly ForgetTarget[],
  pattern: string,
): Promise<{ results: number; bodies: number; mentions: number }> {
  const lockedDeliveries = await erase.lockDeliveries(tx, deliveryIds, pattern)
  const jobs = await lockCandidateJobs(tx, lockedDeliveries)
  const parseable = lockedDeliveries.flatMap((one): DeliveryBody[] =>
    one.body === null ? [] : [{ ...one, body: one.body }],
  )
  const keys = new Set(targets.map(identifierText))
  const named = new RegExp(pattern, 'giu')
  const redacted = findResultSubjects(parseable, jobs).flatMap((result): RedactedResult[] => {
    const isSubject =
      (result.member !== null && ids.includes(result.member.id)) ||
      result.identifiers.some((one) => keys.has(identifierText(one)))
    if (isSubject) return [{ ...result, redacted: null }]
    if (JSON.stringify(result.raw).search(named) === -1) return []
    return [{ ...result, redacted: redactStrings(result.raw, (text) => redactText(text, named)) }]
  })
  await redactResults(tx, parseable, redacted)
  const unreadable = lockedDeliveries.filter((one) => one.unreadable)
  await erase.replaceDeliveryBodies(
    tx,
    unreadable.map((one) => one.id),
    ERASED_BODY,
  )
  const results = redacted.filter((one) => one.redacted === null).length
  return { results, bodies: unreadable.length, mentions: redacted.length - results }
}

/** A value that is the identifier becomes null: a cell may be filled with it. */
const redactText = (text: string, named: RegExp): string | null => {
  const rest = text.replaceAll(named, ERASED_TEXT)
  return rest !== text && !/\s/.test(text.trim()) ? null : rest
}
