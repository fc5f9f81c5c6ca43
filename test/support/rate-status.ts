import type { RateStatus } from '../../src/domain/rate-status.ts'

/** What a limiter reports in a fixed window of 2 s, of which it used 95%. */
export const FIXED_WINDOW_STATUS: RateStatus = {
  state: 'fixed_window',
  limit: 100,
  windowMs: 2_000,
  used: 950,
  permitted: 1_000,
  utilisation: 0.95,
  windowUsed: 40,
  nextWindowAt: null,
  nextWindowInMs: null,
  stallReason: null,
  throttled: 0,
  sharedKey: false,
}
