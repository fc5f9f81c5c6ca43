import { noSpend } from './spend.ts'

/** What `/metrics` shows before anything has happened. */
export const EMPTY_METRICS = {
  data: {
    readAt: 0,
    conditions: [],
    sources: [],
    runs: [],
    jobs: [],
    rateLimits: [],
    services: [],
    spend: noSpend,
  },
  runEnds: [],
  oldestDeliverySeconds: 0,
  backlogs: [],
  now: 0,
  followed: [],
}
