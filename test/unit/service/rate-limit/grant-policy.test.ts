import { describe, expect, test } from 'vitest'
import { CallLedger } from '../../../../src/service/rate-limit/call-ledger.ts'
import { Capacity } from '../../../../src/service/rate-limit/capacity.ts'
import { Cooldown } from '../../../../src/service/rate-limit/cooldown.ts'
import { GrantPolicy } from '../../../../src/service/rate-limit/grant-policy.ts'
import { HeaderCoverage } from '../../../../src/service/rate-limit/header-evidence.ts'
import { ClockOffset, ResetTimer } from '../../../../src/service/rate-limit/reset-timer.ts'
import { SharedKeyDetector } from '../../../../src/service/rate-limit/shared-key.ts'
import { UnstatedLimit } from '../../../../src/service/rate-limit/unstated-limit.ts'
import { WindowModels } from '../../../../src/service/rate-limit/window-models.ts'
import { resultOf } from './ledger-script.ts'

/** A policy, and what it grants by: of the window nothing is known. */
function create(limit = 10, warmGuess: number | null = null) {
  const calls = new CallLedger()
  const shared = new SharedKeyDetector()
  const models = new WindowModels(calls, shared)
  const capacity = new Capacity(calls, models, shared)
  const cooldown = new Cooldown()
  const unstated = new UnstatedLimit(calls)
  const reset = new ResetTimer(new ClockOffset())
  const coverage = new HeaderCoverage(calls)
  const policy = new GrantPolicy({ calls, models, capacity, cooldown, unstated, reset, coverage }, warmGuess)
  /** One call, answered after 20 ms with Remaining, and perhaps with a Reset so far from then. */
  const call = (sentAt: number, remaining: number, resetMs: number | null = null): void => {
    const sent = calls.send(sentAt, models.window, capacity.tracker.allowed)
    models.window.onSent(sent)
    const at = sentAt + 20
    if (resetMs === null) reset.onUninformativeAnswer(at)
    else reset.record({ kind: 'delay', ms: resetMs, precision: 1 }, sentAt, at)
    models.onCompleted(resultOf(sent, at, { used: remaining < limit ? limit - remaining : null }), limit)
    coverage.recordRemaining(sent)
    capacity.tracker.record(sent, remaining, at)
  }
  return { policy, calls, cooldown, unstated, reset, call }
}

describe('while no limit is known', () => {
  test('only an answer raises what is granted, or a grant that expires', () => {
    const { policy, reset } = create()
    reset.onUninformativeAnswer(0)
    expect(policy.grantable(null, 0, 0)).toBe(1)
    expect(policy.nextCheckAt(null, 0)).toBe(null)
    policy.grant(1, null, 0)
    expect(policy.nextCheckAt(null, 0)).toBe(60_000)
  })
})

describe('when nothing is left', () => {
  test('one call is tried once Reset has passed, unless one is pending that will show more', () => {
    const { policy, calls, call } = create()
    call(0, 0, 2000)
    expect(policy.nextCheckAt(10, 30)).toBe(2023)
    expect(policy.grantable(10, 2022, 0)).toBe(0)
    expect(policy.grantable(10, 2023, 0)).toBe(1)
    calls.grant(1, 2023)
    expect(policy.grantable(10, 2023, 0)).toBe(0)
  })

  test('a call that is due and was given back unsent may be made after all', () => {
    const { policy, calls, call } = create(1)
    call(0, 0, 2000)
    policy.grant(1, 1, 2023)
    expect(policy.grantable(1, 2023, 0)).toBe(0)
    calls.release(1)
    expect(policy.grantable(1, 2023, 0)).toBe(1)
  })
})
