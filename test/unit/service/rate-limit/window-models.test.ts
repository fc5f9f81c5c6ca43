import { describe, expect, test } from 'vitest'
import { CallLedger, type Call } from '../../../../src/service/rate-limit/call-ledger.ts'
import { SharedKeyDetector } from '../../../../src/service/rate-limit/shared-key.ts'
import { WindowModels } from '../../../../src/service/rate-limit/window-models.ts'
import { SECOND_WINDOWS } from './ledger-script.ts'

const LIMIT = 10

class Play {
  readonly ledger = new CallLedger()
  readonly shared = new SharedKeyDetector()
  readonly models = new WindowModels(this.ledger, this.shared)

  #send(at: number): Call {
    const call = this.ledger.send(at, this.models.window, 0)
    this.models.window.onSent(call)
    return call
  }

  /** One call after the other, each with how many are used; answered after 20 ms. */
  calls(calls: readonly (readonly [number, number])[]): this {
    for (const [sentAt, used] of calls) {
      const result = {
        call: this.#send(sentAt),
        receivedAt: sentAt + 20,
        used,
        isCounted: true,
        resetAt: null,
      }
      this.models.onCompleted(result, LIMIT)
    }
    return this
  }
}

describe('an idle time', () => {
  const demand = (play: Play, idleMs: number, furthestReset = 0): boolean => {
    play.models.onDemand(false, 3000, furthestReset)
    return play.models.onDemand(true, 3000 + idleMs, furthestReset)
  }

  test('is half a second or a fiftieth of the furthest Reset, and no more than half a minute', () => {
    expect(demand(new Play(), 500)).toBe(false)
    expect(demand(new Play(), 501)).toBe(true)
    expect(demand(new Play(), 1000, 60_000)).toBe(false)
    expect(demand(new Play(), 1300, 60_000)).toBe(true)
    expect(demand(new Play(), 30_001, 10_000_000)).toBe(true)
  })
})

describe('a call that was refused', () => {
  test('is another client’s doing if too few calls are ours', () => {
    const play = new Play().calls(SECOND_WINDOWS)
    const call = play.ledger.send(2200, play.models.window, 0)
    play.models.onRejected(call, LIMIT, 2220)
    expect(play.shared.isDetected).toBe(true)
    expect(play.models.estimate.isFixed).toBe(false)
  })

  test('shows that a round length was too short if all calls are ours', () => {
    const play = new Play().calls(SECOND_WINDOWS)
    const calls = Array.from({ length: 10 }, () => play.ledger.send(2200, play.models.window, 0))
    play.models.onRejected(calls[0]!, LIMIT, 2220)
    expect(play.shared.isDetected).toBe(false)
    expect(play.models.all.fixed.min).toBe(0)
    play.calls([
      [3200, 1],
      [4233, 1],
    ])
    expect(play.models.all.fixed.maxIfRequestStarts % 100).not.toBe(0)
  })
})
