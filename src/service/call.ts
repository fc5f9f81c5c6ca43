/** The head of an answer, as it is told to an observer: header names in lower case. */
export type AnswerHead = {
  status: number
  headers: Record<string, string | string[] | undefined>
  /** When the head was in, in milliseconds since the epoch, by this machine's clock. */
  at: number
}

/**
 * Watches one call on its way to the service. The limiter implements it to count what is on the wire.
 * All times are milliseconds since the epoch by this machine's clock (`Date.now()`).
 *
 * `sent` comes when the request is about to be written to an open connection, not when it was asked for:
 * waiting for a connection is not yet a call that the service can count. Exactly one of `answered` and
 * `lost` follows each `sent`. A call that ends without `sent` (connection refused, unknown host, aborted
 * while it waited) never reached the service and costs nothing of the quota.
 */
export interface CallObserver {
  /** Once answered with 403: it is a ban for the rate, so neither the key nor the input is at fault. */
  readonly isBan?: boolean
  sent(at: number): void
  /** The head of the answer is in; the body may still be on its way. Not told for 1xx. */
  answered(answer: AnswerHead): void
  /** No answer will come: time-out, abort or a lost connection. The service may have counted the call. */
  lost(at: number): void
}
