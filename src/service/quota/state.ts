/**
 * The quota's named states; docs/rate.md draws them and says which behaviour of real services each rule answers.
 *
 *     cold ──a limit is told──▶ learning ──only fixed windows are left──▶ window known
 *      │                            │ ▲                                          │
 *      │                            │ └──what was learnt is contradicted─────────┤
 *      │                            └──only a sliding log or a bucket is left──▶ rolling
 *      └──100 answers without a word of a limit──▶ unlimited
 *
 *     from every one: ──429──▶ stopped ──its time is over──▶ what is still known
 */
export type QuotaState = 'cold' | 'unlimited' | 'learning' | 'window known' | 'rolling' | 'stopped'
