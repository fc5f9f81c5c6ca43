import fc from 'fast-check'
import { expect, test } from 'vitest'
import { findJobCandidates, mergeAnswers, settleDelivery } from '../../../src/pipeline/match-delivery.ts'
import type { DeliveryJob } from '../../../src/store/deliveries.ts'
import type { DeliveredResult } from '../../../src/store/lookup-leases.ts'
import { createService } from '../../../src/domain/service/service.ts'
import { parseEvent } from '../../../src/webhook/event.ts'
import { deliveriesOf, services, type Service } from '../../support/matching-service.ts'

/** A few thousand here, 100,000 with `MATCHING_JOBS=100000`. */
const JOBS = Number(process.env['MATCHING_JOBS'] ?? 3_000)
const RULES = { refreshAfterMs: 1_000, retryNotFoundAfterMs: 1_000 }

const toAdapter = (ordered: boolean) =>
  createService({
    name: 'any',
    person: { path: '/person' },
    company: { path: '/company' },
    // The place of a result is that of its input where a reader says so.
    bulk: { path: '/bulk', ordered, read: () => undefined },
    companyBulk: { path: '/companies', ordered, read: () => undefined },
    webhook: { signature: { header: 'x-signature' } },
    fields: { company: { title: 'text' } },
  })

/** What Fillrate makes of everything that a service delivers for its job. */
function answersTo(service: Service): { answers: DeliveredResult[]; unmatched: number } {
  const known = service.jobs.map(({ key, jobId, requestIds, addresses, identifiers }): DeliveryJob => ({
    id: key,
    service: 0,
    jobId,
    state: 'submitted',
    requestIds,
    createdAt: new Date(0),
    single: false,
    credits: null,
    most: null,
    creditsStated: null,
    members: addresses.map((email, n) => ({
      id: service.people.indexOf(email),
      kind: service.kind,
      identifier: identifiers[n] ?? '',
      open: key === service.jobs[0]?.key,
    })),
  }))
  const settled = deliveriesOf(service).map(({ address, body }) => {
    const parsed = parseEvent(Buffer.from(JSON.stringify(body)))
    if (!parsed.ok) throw new Error(parsed.reason)
    const candidates = findJobCandidates({ service: 0, job: address, jobId: parsed.event.jobId }, known)
    return settleDelivery(parsed.event, candidates, RULES, 0, toAdapter(service.isOrdered))
  })
  return {
    answers: mergeAnswers(settled.flatMap((one) => one?.answers ?? [])),
    unmatched: settled.reduce((sum, one) => sum + (one?.unmatched ?? 0), 0),
  }
}

test(`a result is used for its own input or for none, in ${JOBS} jobs of all kinds of services`, () => {
  fc.assert(
    fc.property(services, (service) => {
      for (const { id, state, record } of answersTo(service).answers) {
        const email = service.people[id] ?? ''
        const isMissing = service.missing.has(email)
        expect({ email, state, title: (record as { title?: string } | null)?.title }).toEqual({
          email,
          state: isMissing ? 'not_found' : 'found',
          title: isMissing ? undefined : `Title of ${email}`,
        })
      }
    }),
    { numRuns: JOBS },
  )
})

test('every result of a service that identifies its inputs, or keeps their order, is used', () => {
  fc.assert(
    fc.property(services, (service) => {
      fc.pre(service.isPlain)
      const { answers, unmatched } = answersTo(service)
      expect(unmatched).toBe(0)
      expect(answers.map(({ id }) => id).sort((a, b) => a - b)).toEqual(
        service.jobs[0]?.addresses.map((email) => service.people.indexOf(email)).sort((a, b) => a - b),
      )
    }),
    { numRuns: Math.min(JOBS, 1_000) },
  )
})
