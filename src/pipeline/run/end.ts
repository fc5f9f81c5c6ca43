/** What a run looks at when it asks itself whether it is done. */
export interface Situation {
  readonly picking: boolean
  /** Rows of this run that wait. */
  readonly mine: number
  /** Of these, those whose lookup is with a job. */
  readonly forDelivery: number
  /** Rows of the same sources that other live runs hold, as far as this one waits for them. */
  readonly others: number
  /** Of these, those whose next lookup nobody will ask, because this run's budget would not pay it. */
  readonly unpayable: number
  /** How long nothing has moved, in milliseconds. */
  readonly idleMs: number
  /** How long to wait for deliveries (`--wait`), in milliseconds. */
  readonly waitMs: number
}

export type End = 'go_on' | 'done' | 'waited_enough'

/**
 * Whether a run is done. It ends when nothing of its rows waits, or when only deliveries are missing and it has waited
 * for them long enough. It also stays while another live run holds rows of its sources: should that one die, its rows
 * are taken over. Pure.
 */
export function endOf(situation: Situation): End {
  const { picking, mine, forDelivery, others, unpayable, idleMs, waitMs } = situation
  if (picking) return 'go_on'
  const payable = mine - unpayable
  if (payable <= 0 && others === 0) return 'done'
  const patient = idleMs < waitMs
  if (payable <= forDelivery) return patient ? 'go_on' : 'waited_enough'
  return 'go_on'
}
