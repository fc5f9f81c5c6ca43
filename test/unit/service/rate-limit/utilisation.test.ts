import { describe, expect, test } from 'vitest'
import { isMet } from '../../../../bench/rate/promised.ts'
import { cases } from '../../../../bench/rate/virtual/cases.ts'
import { playVirtually } from '../../../../bench/rate/virtual/play.ts'

/** Once where the limit is large: some hundred thousand calls tell nothing that fewer do not. */
const times = (limit: number): number => (limit < 1000 ? 3 : 1)

describe('how much of the limit is used, and how seldom a call is refused', () => {
  test.each(cases)('$group: $name', (one) => {
    const measured = playVirtually(one, times(one.settings.service.limit))
    expect({ ...measured, isMet: isMet(one.promised, measured) }).toMatchObject({ isMet: true })
  })
})
