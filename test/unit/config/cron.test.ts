import { describe, expect, test } from 'vitest'
import { nextTimes, previousTime } from '../../../src/config/cron.ts'

const MINUTE_MS = 60_000
/** Three days around each change of a clock: forward, back, by half an hour, and at midnight. */
const CHANGES = [
  ['Europe/Berlin', '2025-03-29'],
  ['Europe/Berlin', '2025-10-25'],
  ['America/New_York', '2025-03-08'],
  ['America/New_York', '2025-11-01'],
  ['Australia/Lord_Howe', '2025-10-03'],
  ['Australia/Lord_Howe', '2025-04-04'],
  ['America/Santiago', '2025-09-06'],
  ['UTC', '2025-03-29'],
] as const

/** Minutes and hours as sets, because the expectation must not depend on another reader of cron expressions. */
const FIXED = {
  '0 2 * * *': [[0], [2]],
  '30 2 * * *': [[30], [2]],
  '0 3 * * *': [[0], [3]],
  '0 0 * * *': [[0], [0]],
  '30 1 * * *': [[30], [1]],
  '0 2,3 * * *': [[0], [2, 3]],
  '30 2,3 * * *': [[30], [2, 3]],
  '15,45 1-3 * * *': [
    [15, 45],
    [1, 2, 3],
  ],
} as const
const BY_THE_CLOCK = { '*/15 * * * *': 15, '0 * * * *': 60, '30 * * * *': 60 } as const

interface Wall {
  readonly day: string
  readonly minute: number
}

function wallClock(timezone: string, from: number, until: number): Map<number, Wall> {
  const format = new Intl.DateTimeFormat('sv', { timeZone: timezone, dateStyle: 'short', timeStyle: 'short' })
  const walls = new Map<number, Wall>()
  for (let at = from; at < until; at += MINUTE_MS) {
    const [day = '', time = ''] = format.format(at).split(' ')
    const [hour = 0, minute = 0] = time.split(':').map(Number)
    walls.set(at, { day, minute: hour * 60 + minute })
  }
  return walls
}

/** The first minute of each day that stands at the time or, where the clock leaps over it, behind it. */
function expectFixed(walls: ReadonlyMap<number, Wall>, minutes: readonly number[]): number[] {
  const times = [...walls]
  const days = [...new Set(times.map(([, wall]) => wall.day))].slice(1, -1)
  const found = days.flatMap((day) =>
    minutes.map((minute) => times.find(([, wall]) => wall.day === day && wall.minute >= minute)?.[0] ?? 0),
  )
  return [...new Set(found)].toSorted((one, other) => one - other)
}

describe.each(CHANGES)('%s from %s', (timezone, day) => {
  const from = Date.parse(`${day}T00:00:00Z`) - 24 * 60 * MINUTE_MS
  const walls = wallClock(timezone, from, from + 4 * 24 * 60 * MINUTE_MS)

  const expectTimes = (cron: string, expected: readonly number[]): void => {
    const [first = 0, last = 0] = [expected[0], expected.at(-1)]
    const when = { cron, timezone }
    const listed = nextTimes(when, first - 1, expected.length).map((at) => new Date(at).toISOString())
    expect(listed).toEqual(expected.map((at) => new Date(at).toISOString()))
    // One after the other, and backwards, as a daemon reads them.
    expected.forEach((at, index) => {
      const next = expected[index + 1] ?? at
      for (const now of [at, Math.max(at, next - 1)]) expect(previousTime(when, now)).toBe(at)
      if (at < last) expect(nextTimes(when, at, 1)).toEqual([next])
    })
  }

  test.each(Object.entries(FIXED))('%s runs once a day each', (cron, [minutes, hours]) => {
    const times = hours.flatMap((hour) => minutes.map((minute) => hour * 60 + minute))
    expectTimes(cron, expectFixed(walls, times))
  })

  test.each(Object.entries(BY_THE_CLOCK))('%s runs whenever the clock shows it', (cron, every) => {
    const offset = cron.startsWith('30') ? 30 : 0
    const shown = [...walls].filter(([, wall]) => wall.minute % every === offset)
    expectTimes(
      cron,
      shown.map(([at]) => at),
    )
  })
})
