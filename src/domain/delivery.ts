/**
 *     received ──▶ settled
 *        ├──▶ orphaned (signed, but for no known job; received again when its job becomes known)
 *        └──▶ quarantined (signed, but unreadable; kept whole)
 */
export const Delivery = {
  received: 'received',
  settled: 'settled',
  orphaned: 'orphaned',
  quarantined: 'quarantined',
} as const
export type DeliveryState = (typeof Delivery)[keyof typeof Delivery]
