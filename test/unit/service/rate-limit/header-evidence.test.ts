import { describe, expect, test } from 'vitest'
import { CallLedger } from '../../../../src/service/rate-limit/call-ledger.ts'
import {
  CountedStatuses,
  DelayUnit,
  HeaderCoverage,
  LimitDecrease,
  StaticHeaderFilter,
  usedFromHeaders,
} from '../../../../src/service/rate-limit/header-evidence.ts'
import { resultOf, send } from './ledger-script.ts'

const rate = (limit: number | null, remaining: number | null) => ({
  limit,
  remaining,
  reset: null,
  windowMs: null,
  date: null,
})
const callAt = (sentAt: number) => send(new CallLedger(), sentAt)

test('usage is Limit less Remaining, and not stated by a Remaining as large as the limit', () => {
  expect(usedFromHeaders(rate(10, 7), null)).toBe(3)
  expect(usedFromHeaders(rate(null, 7), 10)).toBe(3)
  expect(usedFromHeaders(rate(10, 10), null)).toBe(null)
  expect(usedFromHeaders(rate(null, 7), null)).toBe(null)
})

describe('headers that are constants', () => {
  const read = (filter: StaticHeaderFilter, remaining: readonly (number | null)[]) =>
    remaining.map((one) => filter.filter(rate(50, one)).remaining)

  test('are not believed because they are missing on some answers', () => {
    expect(read(new StaticHeaderFilter(), [0, null, 0, 0, 0, 0])).toEqual([0, null, 0, 0, null, null])
  })

  test('are believed if they are those of a fresh window', () => {
    expect(read(new StaticHeaderFilter(), [49, 49, 49, 49, 49])).not.toContain(null)
  })
})

describe('the unit of a delay', () => {
  /** Calls one after the other, each with what Reset said. */
  const convert = (delays: readonly (readonly [number, number])[]) => {
    const unit = new DelayUnit()
    const last = delays.map(([at, ms]) =>
      unit.convert({ kind: 'delay', ms, precision: 1000 }, callAt(at), at + 10),
    )
    return { unit, last: last.at(-1) }
  }

  test('is not shown by calls that were in flight together', () => {
    const delays = [0, 20, 40].flatMap((at) => [[at, 13_000] as const, [at + 5, 1000] as const])
    expect(convert(delays).unit.isMs).toBe(false)
  })

  test('is seconds if it falls by as many as have passed', () => {
    const delays = [
      [0, 60_000],
      [15_000, 45_000],
      [30_000, 30_000],
      [45_000, 15_000],
    ] as const
    expect(convert(delays)).toMatchObject({ last: { ms: 15_000, precision: 1000 } })
  })

  test('is seconds if it falls by one now and then', () => {
    const delays = [
      [0, 9000],
      [400, 9000],
      [800, 9000],
      [1200, 8000],
      [1600, 8000],
      [2200, 7000],
    ] as const
    expect(convert(delays)).toMatchObject({ last: { ms: 7000, precision: 1000 } })
  })
})

describe('a limit that was cut', () => {
  test('is not undone by an answer from before it', () => {
    const decrease = new LimitDecrease()
    decrease.record(100)
    expect(decrease.apply(rate(50, 40), callAt(90), 20)).toMatchObject({ limit: 20, remaining: 10 })
    expect(decrease.apply(rate(50, 5), callAt(90), 20)).toMatchObject({ limit: 20, remaining: 0 })
  })

  test('leaves alone an answer that does not state Remaining', () => {
    const decrease = new LimitDecrease()
    decrease.record(100)
    expect(decrease.apply(rate(50, null), callAt(90), 20).remaining).toBe(null)
  })

  test('may be raised again by a later call', () => {
    const decrease = new LimitDecrease()
    decrease.record(100)
    expect(decrease.apply(rate(50, 40), callAt(110), 20)).toMatchObject({ limit: 50, remaining: 40 })
    expect(decrease).toMatchObject({ hasHappened: true })
  })
})

describe('which answers are counted', () => {
  /** Calls one after the other, each with its status and what is used. */
  const learn = (answers: readonly (readonly [number, number | null])[]): CountedStatuses => {
    const statuses = new CountedStatuses()
    const ledger = new CallLedger()
    for (const [status, used] of answers) {
      const result = resultOf(send(ledger, 0), 10, { used })
      ledger.complete(result)
      statuses.record(result, status, ledger.sent)
      if (status >= 400 && status < 500) ledger.clientErrors++
    }
    return statuses
  }

  test('2xx are, 5xx may not be, and neither may 4xx before anything shows it', () => {
    expect([200, 404, 500].map((status) => new CountedStatuses().isCounted(status))).toEqual([
      true,
      false,
      false,
    ])
  })

  test('4xx are once the call after one counts one more', () => {
    expect(
      learn([
        [404, 1],
        [200, 2],
      ]).isCounted(404),
    ).toBe(true)
  })

  test('4xx are once the call after one counts one more, in a later window too', () => {
    const answers = [1, 2, 3].map((used) => [200, used] as const)
    expect(learn([...answers, [404, 1], [200, 2]]).isCounted(404)).toBe(true)
  })

  test('4xx are once more calls are counted than all others together', () => {
    const answers = [
      [404, null],
      [200, 2],
    ] as const
    expect(learn(answers).isCounted(404)).toBe(true)
  })

  test('nothing is shown by answers that state no count', () => {
    const answers = [
      [404, null],
      [200, null],
      [404, 3],
      [200, 4],
    ] as const
    expect(learn(answers).isCounted(404)).toBe(true)
  })

  test('4xx are not once the call after one counts the same', () => {
    const statuses = learn([
      [200, 1],
      [404, 2],
      [200, 3],
      [404, 3],
      [200, 3],
    ])
    expect(statuses.isCounted(404)).toBe(false)
  })

  test('calls of a previous process are not taken for 4xx', () => {
    expect(
      learn([
        [404, 8],
        [200, 8],
      ]).isCounted(404),
    ).toBe(false)
  })
})

test('the share of answers with headers is of all completed calls', () => {
  const ledger = new CallLedger()
  const coverage = new HeaderCoverage(ledger)
  const calls = Array.from({ length: 8 }, (_, index) => send(ledger, index))
  for (const call of calls.slice(0, 7)) ledger.complete(resultOf(call, 20))
  expect(coverage.hasFewSamples).toBe(true)
  ledger.complete(resultOf(calls[7]!, 20))
  coverage.recordRemaining()
  coverage.recordRemaining()
  coverage.recordReset(5)
  coverage.recordReset(null)
  expect(coverage).toMatchObject({ share: 0.25, hasFewSamples: false, maxUsedAtReset: 5 })
})
