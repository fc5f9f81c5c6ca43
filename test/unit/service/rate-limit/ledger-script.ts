import type { Call, CallLedger, CallResult } from '../../../../src/service/rate-limit/call-ledger.ts'

/** No fixed window is tracked. */
export const send = (ledger: CallLedger, sentAt: number, allowed = 0): Call =>
  ledger.send({ sentAt, window: 0, certainBefore: 0 }, allowed)

export const resultOf = (call: Call, receivedAt: number, changes: Partial<CallResult> = {}): CallResult => ({
  call,
  receivedAt,
  used: null,
  isCounted: true,
  isRefused: false,
  ...changes,
})

/** Calls in windows of a second, which begin with a call: when each is sent, and how many are used then. */
export const SECOND_WINDOWS = [
  [0, 1],
  [300, 2],
  [600, 3],
  [940, 4],
  [1030, 1],
  [1300, 2],
  [1600, 3],
  [1980, 4],
  [2070, 1],
] as const
