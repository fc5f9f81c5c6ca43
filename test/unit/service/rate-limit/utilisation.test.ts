import { describe, expect, test } from 'vitest'
import { isMet } from '../../../../bench/rate/targets.ts'
import { cases, type VirtualCase } from '../../../../bench/rate/virtual/cases.ts'
import { playVirtually } from '../../../../bench/rate/virtual/play.ts'
import { isEachCasePlayed } from '../../../support/quota-runs.ts'

/** Once if there are many calls: hundreds of thousands show no more than fewer do. */
const timesOf = ({ settings: { service, durationMs } }: VirtualCase): number =>
  isEachCasePlayed || service.limit * durationMs < 1500 * service.windowMs ? 3 : 1

/** Eight windows of thousands of calls; of fewer calls as many as the table in docs/internals/rate.md. */
const shortened = (one: VirtualCase): VirtualCase => {
  const { service, durationMs } = one.settings
  const most = isEachCasePlayed || service.limit < 1000 ? durationMs : 8 * service.windowMs
  return { ...one, settings: { ...one.settings, durationMs: Math.min(durationMs, most) } }
}

describe('utilisation of the limit, and 429s', () => {
  test.each(cases)('$group: $name', (one) => {
    const measured = playVirtually(shortened(one), timesOf(one))
    expect({ ...measured, isMet: isMet(one.target, measured) }).toMatchObject({ isMet: true })
  })
})
