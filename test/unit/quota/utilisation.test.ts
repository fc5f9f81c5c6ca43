import { describe, expect, test } from 'vitest'
import { isMet, unpromised } from '../../../bench/rate/promised.ts'
import { cases } from '../../../bench/rate/virtual/cases.ts'
import { playVirtually } from '../../../bench/rate/virtual/play.ts'

/** What docs/rate.md shows as missed: there, only that nothing is refused holds. */
const missed = new Set(['5 in 10 s', '50 in 10 s, headers on 30% of answers'])

/** Some hundred thousand calls tell nothing here that fewer do not. */
const affordable = cases.filter(({ settings }) => settings.service.limit < 1000)

describe('how much of the limit is used, and how seldom a call is refused', () => {
  test.each(affordable)('$group: $name', (one) => {
    const measured = playVirtually(one, 5)
    const promised = missed.has(one.name) ? unpromised : one.promised
    expect({ ...measured, isMet: isMet(promised, measured) }).toMatchObject({ isMet: true })
  })
})
