import { describe, expect, test } from 'vitest'
import { EndpointModels } from '../../../../src/service/rate-limit/endpoint-models.ts'
import { Permits } from '../../../../src/service/rate-limit/permits.ts'

describe('permits', () => {
  const create = (count: number) => {
    const models = new EndpointModels({ onPersisted: () => {}, now: () => 5 })
    const model = models.reported
    let changes = 0
    models.grant(null, count, 0)
    return {
      model,
      permits: new Permits({ models, now: () => 5, onChange: () => changes++ }, count),
      changes: () => changes,
    }
  }

  test('are given back by release, by a call that ends unsent, and by one that is lost unsent', () => {
    const { model, permits, changes } = create(4)
    permits.use().end()
    permits.use().lost(0)
    permits.release()
    permits.release()
    expect(model.calls).toMatchObject({ granted: 0, sent: 0 })
    expect(changes()).toBe(3)
    expect(() => permits.use()).toThrow('all 4 permits are used')
  })

  test('a call that was sent is counted once, however often its end is reported', () => {
    const { model, permits } = create(1)
    const call = permits.use()
    call.sent(0)
    call.answered({ status: 200, headers: {}, at: 0 })
    call.lost(0)
    call.end()
    expect(model.calls).toMatchObject({ sent: 1, completed: 1, granted: 0 })
  })

  test('only the first end of a call is reported', () => {
    const { model, permits, changes } = create(3)
    const [answered, lost] = [permits.use(), permits.use()]
    answered.answered({ status: 200, headers: {}, at: 0 })
    answered.answered({ status: 429, headers: {}, at: 0 })
    answered.lost(0)
    answered.end()
    lost.sent(0)
    lost.lost(0)
    lost.lost(0)
    expect(model).toMatchObject({ throttled: 0 })
    expect(model.calls.granted).toBe(1)
    expect(changes()).toBe(2)
  })

  test('a 403 soon after a 429 is marked as a ban', () => {
    const { permits } = create(3)
    const [first, second, third] = [permits.use(), permits.use(), permits.use()]
    first.answered({ status: 403, headers: {}, at: 0 })
    second.answered({ status: 429, headers: {}, at: 0 })
    third.answered({ status: 403, headers: {}, at: 0 })
    expect([first.banMs, third.banMs]).toEqual([0, 30_000])
  })
})
