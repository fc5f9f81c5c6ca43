import fc from 'fast-check'
import { expect, test } from 'vitest'
import { afterDelivery, isTerminalStatus, type JobState } from '../../../src/domain/job.ts'
import { afterResult } from '../../../src/domain/lookup.ts'
import { roundCredits } from '../../../src/domain/spend.ts'
import { costAnswers, toJobCost } from '../../../src/pipeline/settle.ts'
import type { DeliverySettlement, JobAnswer } from '../../../src/pipeline/match-delivery.ts'
import type { DeliveryJob } from '../../../src/store/deliveries.ts'

const RULES = { refreshAfterMs: 1, retryNotFoundAfterMs: 1 }
const RESERVED = 3

/** A job as the database has it, and what `store/spend.ts` counts of it. */
class CountedJob {
  readonly isFlat: boolean
  state: JobState = 'submitted'
  credits: number | null = null
  stated: number | null = null
  readonly open: boolean[]
  readonly erased: boolean[]
  /** Credits that are billed and in doubt. */
  billed: number
  doubt: number

  constructor(size: number, isFlat: boolean) {
    this.isFlat = isFlat
    this.open = Array.from({ length: size }, () => true)
    this.erased = this.open.map(() => false)
    // As the trigger counts a job that is accepted.
    this.billed = isFlat ? size : 0
    this.doubt = isFlat ? 0 : size * RESERVED
  }

  get job(): DeliveryJob {
    const { state, credits, isFlat, stated: creditsStated } = this
    const members = this.open.map((open, id) => ({
      id,
      kind: this.erased[id] ? null : ('email' as const),
      identifier: this.erased[id] ? '' : `p${id}@x.example`,
      open: open && !this.erased[id],
    }))
    const ids = { id: 'job', service: 0, jobId: 'j', requestIds: null, createdAt: new Date(0) }
    return {
      ...ids,
      single: false,
      state,
      credits,
      most: isFlat ? null : { email: RESERVED },
      creditsStated,
      members,
    }
  }

  /** As `settle.ts`, `lookup-leases.ts` and `countJobCosts` do it. */
  deliver(results: readonly Result[], status: 'completed' | 'failed' | null, stated: number | null): void {
    const { job } = this
    const answers = results
      .filter(({ member }) => !this.erased[member])
      .map(({ member, isFound, credits }): JobAnswer => ({
        id: member,
        job: 'job',
        requestedAt: new Date(0),
        isOpen: this.open[member] === true,
        reserved: this.isFlat ? null : RESERVED,
        ...afterResult(
          isFound ? { type: 'found', record: {}, confidence: 1 } : { type: 'not_found' },
          RULES,
          0,
        ),
        // As the description bills it, if the result does not say.
        ...(credits === null ? !this.isFlat && { credits: isFound ? RESERVED : 0 } : { credits }),
      }))
    const settlement = { job, answers, credits: stated, isForJob: true, status, unmatched: 0 }
    const delivered = { job, settlements: [settlement satisfies DeliverySettlement] }
    const costed = costAnswers(answers, [delivered])
    const stored = costed.filter(({ id }) => this.open[id])
    for (const { id, credits, isSettled } of stored) {
      this.open[id] = false
      if (credits === undefined) continue
      const base = isSettled === true ? 0 : this.isFlat ? 1 : RESERVED
      this.billed += this.isFlat ? credits - base : credits
      this.doubt -= this.isFlat ? 0 : base
    }
    const cost = toJobCost(delivered, costed, stored)
    if (cost !== null) {
      this.credits = cost.credits
      this.stated = cost.stated
      this.billed += cost.beside?.credits ?? 0
      this.doubt -= this.isFlat ? 0 : RESERVED * (cost.beside?.unanswered.length ?? 0)
    }
    const after = afterDelivery(status, this.openCount)
    if (this.state !== 'completed') this.state = after.state ?? this.state
    for (const name of ['billed', 'doubt'] as const) this[name] = roundCredits(this[name])
  }

  get openCount(): number {
    return this.open.filter((open, n) => open && !this.erased[n]).length
  }
}

interface Result {
  readonly member: number
  readonly isFound: boolean
  readonly credits: number | null
}

const SIZE = 5
const credits = fc.constantFrom(0, 0.1, 0.5, 1, 2, 7.25)
const result = (stating: fc.Arbitrary<number | null>) =>
  fc.record({ member: fc.nat(SIZE - 1), isFound: fc.boolean(), credits: stating })
const delivery = (stating: fc.Arbitrary<number | null>) =>
  fc.record({
    results: fc.uniqueArray(result(stating), { selector: ({ member }) => member, maxLength: SIZE }),
    status: fc.constantFrom('completed' as const, 'failed' as const, null),
    /** Erased before it. */
    erased: fc.option(fc.nat(SIZE - 1), { freq: 8 }),
  })
const option = (of: fc.Arbitrary<number>) => fc.option(of, { nil: null })

test('a job counts as the sum that the service states, whatever was delivered, erased or left out', () => {
  fc.assert(
    fc.property(
      fc.boolean(),
      fc.array(fc.record({ part: delivery(option(credits)), sum: option(credits) }), {
        minLength: 1,
        maxLength: 5,
      }),
      (isFlat, deliveries) => {
        const job = new CountedJob(SIZE, isFlat)
        let known: number | null = null
        for (const { part, sum } of deliveries) {
          if (part.erased !== null) job.erased[part.erased] = true
          job.deliver(part.results, part.status, sum)
          known = sum ?? known
          if (known === null) continue
          const isOver = isTerminalStatus(job.state)
          // While more may come, a service that bills by the lookup is taken to bill those, too.
          expect(job.billed).toBe(roundCredits(known + (isFlat && !isOver ? job.openCount : 0)))
          expect(job.credits).toBe(job.billed)
          // What is in doubt is what is still awaited, and what was erased.
          const erased = job.erased.filter(Boolean).length
          const most = isFlat ? 0 : RESERVED * (erased + (isOver ? 0 : job.openCount))
          expect(job.doubt).toBeLessThanOrEqual(most)
          expect(job.doubt).toBeGreaterThanOrEqual(0)
        }
      },
    ),
    { numRuns: 4_000 },
  )
})

test('results that state what they cost are counted with that, each once', () => {
  fc.assert(
    fc.property(
      fc.boolean(),
      fc.array(delivery(credits), { minLength: 1, maxLength: 4 }),
      (isFlat, deliveries) => {
        const job = new CountedJob(SIZE, isFlat)
        const firsts = new Map<number, number>()
        for (const { results, status } of deliveries) {
          for (const one of results) if (!firsts.has(one.member)) firsts.set(one.member, one.credits ?? 0)
          job.deliver(results, status, null)
        }
        const sum = roundCredits([...firsts.values()].reduce((total, one) => total + one, 0))
        expect(job.billed).toBe(roundCredits(sum + (isFlat ? job.openCount : 0)))
        expect(job.doubt).toBe(isFlat ? 0 : job.openCount * RESERVED)
      },
    ),
  )
})

test('a job of a service that bills by the lookup, and states nothing, is left as it was counted', () => {
  const job = new CountedJob(SIZE, true)
  job.deliver([{ member: 0, isFound: true, credits: null }], 'completed', null)
  expect([job.credits, job.billed, job.doubt]).toEqual([null, SIZE, 0])
})
