import { expect, test } from 'vitest'
import { findSlowness } from '../../../src/domain/slowness.ts'

const STEP_MS = 10_000
const SECOND = 1_000
/** Counts are stored every two seconds. */
const DELAY_MS = 2_000
const START = Date.UTC(2026, 10, 25, 2)

/** How a service answers from a second on. */
interface Phase {
  readonly from: number
  /** What the calls take in turn, in milliseconds. */
  readonly ms: readonly number[]
  /** Lookups that arrive a second. Default: there is always work. */
  readonly arrivals?: number
  /** Lookups that wait when the phase begins: they are called before those that arrive. Default: none. */
  readonly backlog?: number
}

interface Played {
  readonly slots?: number
  readonly limit?: number
  readonly usualMs?: number | null
  readonly phases: readonly Phase[]
  readonly seconds: number
}

/** Plays calls through slots and a limit, and looks each second. @returns the seconds in which the service is slow */
function play({ slots = 32, limit, usualMs = 100, phases, seconds }: Played): number[] {
  const free = Array.from({ length: slots }, () => 0)
  const calls: { readonly end: number; readonly ms: number }[] = []
  const phaseAt = (ms: number): Phase =>
    phases.findLast(({ from }) => from * SECOND <= ms) ?? { from: 0, ms: [0] }
  let next = 0
  const backlogs = new Map(phases.map((phase) => [phase, phase.backlog ?? 0]))
  for (let n = 0; ; n++) {
    const slot = free.indexOf(Math.min(...free))
    const begin = Math.max(next, free[slot] ?? 0)
    if (begin >= seconds * SECOND) break
    const phase = phaseAt(begin)
    const backlog = backlogs.get(phase) ?? 0
    backlogs.set(phase, backlog - 1)
    const { ms: durations, arrivals } = backlog > 0 ? { ms: phase.ms } : phase
    if (arrivals === 0) {
      next = begin + SECOND
      continue
    }
    const ms = durations[n % durations.length] ?? 0
    free[slot] = begin + ms
    calls.push({ end: begin + ms, ms })
    next = begin + SECOND / Math.min(limit ?? 10_000, arrivals ?? 10_000)
  }
  calls.sort((a, b) => a.end - b.end)
  const steps = new Map<number, { at: number; calls: number; durations: { ms: number; calls: number }[] }>()
  const slow: number[] = []
  let stored = 0
  for (let second = 1; second <= seconds; second++) {
    const now = second * SECOND
    for (; (calls[stored]?.end ?? Infinity) <= now - DELAY_MS; stored++) {
      const { end = 0, ms = 0 } = calls[stored] ?? {}
      const at = START + Math.floor(end / STEP_MS) * STEP_MS
      const step = steps.get(at) ?? { at, calls: 0, durations: [] }
      const group = step.durations.find((one) => one.ms === ms)
      if (group === undefined) step.durations.push({ ms, calls: 1 })
      else group.calls++
      step.calls++
      steps.set(at, step)
    }
    const facts = {
      ended: [...steps.values()].filter(({ at }) => at > START + now - 120_000),
      stepMs: STEP_MS,
      slots,
      callsPerSecond: limit ?? null,
      usualMs,
    }
    if (findSlowness(facts, START + now) !== null) slow.push(second)
  }
  return slow
}

const slowFrom = (onset: number, mend: number, ms: readonly number[], fast = 100): Phase[] => [
  { from: 0, ms: [fast] },
  { from: onset, ms },
  { from: mend, ms: [fast] },
]

test.each<[name: string, ms: number[], rest?: Partial<Played>]>([
  ['ten times as long', [1_000]],
  ['thirty times as long', [3_000]],
  ['half of the calls are fast', [100, 5_000]],
  ['nine of ten calls are fast', [...Array.from({ length: 9 }, () => 100), 10_000]],
  ['a limit that usually binds', [5_000], { limit: 100 }],
  ['calls of every duration', [100, 7_000, 300, 100, 2_500, 1_000, 200, 4_000, 100]],
  ['few slots', [2_000], { slots: 3 }],
  ['few slots, and half of the calls are fast', [100, 3_000], { slots: 4 }],
  ['a service that answers in 10 ms', [400], { usualMs: 10, slots: 8 }],
])('%s: slow within 30 s, for as long as it is, and for 10 s after the mend', (_, ms, rest) => {
  for (const onset of [41, 44, 50, 57, 59]) {
    const mend = onset + 95
    const slow = play({
      seconds: mend + 60,
      phases: slowFrom(onset, mend, ms, rest?.usualMs ?? 100),
      ...rest,
    })
    const [first = Infinity, last = Infinity] = [slow[0], slow.at(-1)]
    expect(first).toBeGreaterThan(onset)
    expect(first - onset).toBeLessThanOrEqual(30)
    // What was begun before the mend is answered later.
    expect(last - mend).toBeLessThanOrEqual(10 + Math.max(...ms) / SECOND)
    // Shorter than it is held.
    const gaps = slow.slice(1).map((second, n) => second - (slow[n] ?? 0))
    expect(Math.max(...gaps)).toBeLessThanOrEqual(2)
  }
})

test('a backlog that is worked off after the mend shows it once its calls are answered and counted', () => {
  const seconds: number[] = []
  for (let onset = 41; onset < 51; onset++)
    for (let mend = onset + 60; mend < onset + 70; mend++) {
      const rest: Phase = { from: mend, ms: [100], arrivals: 1.25, backlog: 200 }
      const phases = [...slowFrom(onset, mend, [4_000]).slice(0, 2), rest]
      const slow = play({ slots: 4, phases, seconds: mend + 40 })
      seconds.push((slow.at(-1) ?? Infinity) + 1 - mend)
    }
  // Four for those that were begun before it, two until they are stored, and a second for thirty fast ones, and for the look.
  expect(Math.max(...seconds)).toBeLessThanOrEqual(8)
})

test('calls that become faster, and are slow: slow all the time', () => {
  const phases = [...slowFrom(41, 100, [4_000]).slice(0, 2), { from: 100, ms: [800] }]
  const slow = play({ slots: 4, phases, seconds: 160 })
  expect(slow.slice(-80)).toEqual(Array.from({ length: 80 }, (_, n) => 81 + n))
})

test.each<[name: string, Partial<Played>]>([
  ['as usual', { phases: [{ from: 0, ms: [100] }] }],
  ['a little slower', { phases: slowFrom(40, 130, [200]) }],
  ['there is little work', { phases: [{ from: 0, ms: [5_000], arrivals: 2 }] }],
  ['there is none', { phases: [{ from: 0, ms: [5_000], arrivals: 0 }] }],
  [
    'there is no more',
    {
      phases: [
        { from: 0, ms: [100] },
        { from: 60, ms: [100], arrivals: 0 },
      ],
    },
  ],
  ['the limit binds', { limit: 5, phases: slowFrom(40, 130, [3_000]) }],
  ['for ten seconds', { phases: slowFrom(40, 50, [2_000]) }],
  ['it is always like this', { usualMs: 3_000, phases: [{ from: 0, ms: [4_000] }] }],
  ['nothing is known, and a call takes two seconds', { usualMs: null, phases: [{ from: 0, ms: [2_000] }] }],
])('%s: not slow', (_, played) => {
  expect(play({ phases: [], seconds: 160, ...played })).toEqual([])
})

test('nothing is known, and a call takes five seconds: slow', () => {
  expect(play({ usualMs: null, phases: [{ from: 0, ms: [5_000] }], seconds: 60 }).length).toBeGreaterThan(25)
})

test('no process calls the service: not slow', () => {
  const ended = [1, 2, 3].map((n) => ({
    at: START + n * STEP_MS,
    calls: 40,
    durations: [{ ms: 9_000, calls: 40 }],
  }))
  const facts = { ended, stepMs: STEP_MS, slots: 4, callsPerSecond: null, usualMs: 100 }
  expect(findSlowness(facts, START + 40_000)).toMatchObject({ ms: 9_000 })
  expect(findSlowness({ ...facts, slots: null }, START + 40_000)).toBe(null)
})
