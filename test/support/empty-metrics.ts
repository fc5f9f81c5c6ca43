import { noSpend } from './spend.ts'

/** What `/metrics` shows before anything has happened. */
export const EMPTY_METRICS = {
  data: {
    readAt: 0,
    conditions: [],
    watched: [],
    retired: [],
    sources: [],
    runs: [],
    jobs: [],
    rateLimits: [],
    callsToday: { calls: 0, throttled: 0 },
    failures: [],
    skippedCells: [],
    cellsWritten: 0,
    runningRuns: 0,
    spend: noSpend,
  },
  runEnds: [],
  oldestDeliverySeconds: 0,
  backlogs: [],
  now: 0,
  spentToday: [],
  services: [],
  followed: [],
}
