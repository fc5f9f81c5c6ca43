/**
 * The quota's named states; docs/rate.md draws them and says which behaviour of real services each rule answers.
 *
 *              a limit is told          only fixed windows are left
 *     cold ──────────────────────▶ learning ──────────────────────────▶ window known
 *      │                           │ ▲  ▲                                    │
 *      │ 100 answers without       │ │  └── what was learnt is contradicted ─┘
 *      │ a word of a limit         │ └───── what was learnt is contradicted ─┐
 *      ▼                           └─────────────────────────────────────▶ rolling
 *     unlimited                         only a sliding log or a bucket is left
 *
 *     from every one: ──a 429, or a limit cut below what may be counted──▶ stopped ──its time is over──▶ what is
 *     still known
 *
 *     from every one: ──a 403 soon after a 429──▶ banned ──one call after each pause, until one is answered──▶ back
 */
export type QuotaState =
  | 'cold'
  | 'unlimited'
  | 'calibrating'
  | 'fixed_window'
  | 'sliding'
  | 'cooldown'
  | 'banned'
