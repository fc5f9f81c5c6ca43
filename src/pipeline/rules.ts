import type { Config } from '../config/config.ts'
import type { Rules } from './deps.ts'

/** A statement on a user's table may take this long: a page of 1,000 rows takes milliseconds where it has its index. */
export const SOURCE_TIMEOUT_MS = 60_000

/** A person's transaction may stay open for the night: a run ends without its rows, and the next one writes them. */
const LEFT_WAIT_MS = 10_000

/** What a configuration says to the steps. */
export const rulesOf = (config: Config): Rules => ({
  attempts: config.attempts,
  concurrency: config.service.concurrency,
  callTimeoutMs: config.service.timeoutMs,
  bulkMinimum: config.bulk.minimum,
  bulkDeadlineMs: config.bulk.deadlineMs,
  bulkGraceMs: config.bulk.graceMs,
  refreshAfterMs: config.refreshAfterMs,
  retryNotFoundAfterMs: config.retryNotFoundAfterMs,
  sourceTimeoutMs: SOURCE_TIMEOUT_MS,
  leftWaitMs: LEFT_WAIT_MS,
})
