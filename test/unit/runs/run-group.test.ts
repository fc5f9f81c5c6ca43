import { expect, it } from 'vitest'
import { RunGroup } from '../../../src/runs/run-group.ts'
import type { StartedRun } from '../../../src/runs/start-run.ts'

const group = (...ids: readonly number[]): RunGroup => {
  const created = new RunGroup()
  for (const id of ids) created.add({ id, sources: [] } as unknown as StartedRun)
  return created
}

it('ends runs that await each other once all are idle at the same time', () => {
  const runs = group(1, 2)
  expect(runs.markIdle(1)).toBe(false)
  expect(runs.markIdle(2)).toBe(true)
  expect(runs.markIdle(1)).toBe(true)
})

it('looks again at each of them after one had work', () => {
  const runs = group(1, 2)
  runs.markIdle(1)
  runs.markBusy(2)
  expect(runs.markIdle(2)).toBe(false)
  expect(runs.markIdle(1)).toBe(true)
})

it('awaits no run that has ended', () => {
  const runs = group(1, 2)
  runs.markEnded(2)
  expect(runs.markIdle(1)).toBe(true)
})
