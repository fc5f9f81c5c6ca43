import { expect, it } from 'vitest'
import { RunGroup } from '../../../src/runs/run-group.ts'
import type { StartedRun } from '../../../src/runs/start-run.ts'

const group = (...ids: readonly number[]): RunGroup => {
  const created = new RunGroup()
  for (const id of ids) created.add({ id, sources: [] } as unknown as StartedRun)
  return created
}

/** A look at the rows of a run, which has none that it can finish. */
const look = (runs: RunGroup, run: number): boolean => runs.markIdle(run, runs.changes)

it('ends runs that await each other once each was looked at and has none since the last had work', () => {
  const runs = group(1, 2)
  expect(look(runs, 1)).toBe(false)
  expect(look(runs, 2)).toBe(false)
  expect(look(runs, 1)).toBe(false)
  expect(look(runs, 2)).toBe(true)
  expect(look(runs, 1)).toBe(true)
})

it('looks again at each of them after one had work', () => {
  const runs = group(1, 2)
  for (const run of [1, 2, 1, 2]) look(runs, run)
  runs.markBusy(2)
  expect(look(runs, 2)).toBe(false)
  expect(look(runs, 1)).toBe(false)
  expect(look(runs, 2)).toBe(true)
})

// The one that it hands its last rows on to has not noticed them yet, and may hand them on to the third.
it('looks again at each of the others after one has ended, or has handed its last rows on', () => {
  for (const leave of ['end', 'idle'] as const) {
    const runs = group(1, 2, 3)
    runs.markBusy(1)
    for (const run of [2, 3, 2, 3]) expect(look(runs, run)).toBe(false)
    if (leave === 'end') runs.markEnded(1)
    else look(runs, 1)
    expect({ leave, mayEnd: look(runs, 3) }).toEqual({ leave, mayEnd: false })
  }
})

it('counts no look that began before the last change', () => {
  const runs = group(1, 2)
  const before = runs.changes
  runs.markEnded(2)
  for (const _ of [1, 2]) expect(runs.markIdle(1, before)).toBe(false)
  expect(look(runs, 1)).toBe(true)
})

it('awaits no run that has ended', () => {
  const runs = group(1, 2)
  runs.markEnded(2)
  look(runs, 1)
  expect(look(runs, 1)).toBe(true)
})
