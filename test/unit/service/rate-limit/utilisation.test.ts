import { describe, expect, test } from 'vitest'
import { isMet } from '../../../../bench/rate/targets.ts'
import { cases } from '../../../../bench/rate/virtual/cases.ts'
import { playVirtually } from '../../../../bench/rate/virtual/play.ts'

/** Once if the limit is large: hundreds of thousands of calls show no more than fewer do. */
const times = (limit: number): number => (limit < 1000 ? 3 : 1)

describe('utilisation of the limit, and 429s', () => {
  test.each(cases)('$group: $name', (one) => {
    const measured = playVirtually(one, times(one.settings.service.limit))
    expect({ ...measured, isMet: isMet(one.target, measured) }).toMatchObject({ isMet: true })
  })
})
