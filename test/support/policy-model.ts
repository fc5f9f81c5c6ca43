import type { WritePolicy } from '../../src/domain/mapping.ts'

/** What the models know of a policy. A new policy is asked for here. */
interface PolicyModel {
  /** How often generated cases have it. */
  readonly weight: number
  /** Which values it replaces: of the user's, or only what was written for the same inputs. */
  readonly replaces: 'nothing' | 'own' | 'all'
  /** What was written for earlier inputs counts as blank. */
  readonly takesEarlier: boolean
}

export const POLICY_MODEL: Readonly<Record<WritePolicy, PolicyModel>> = {
  blank: { weight: 2, replaces: 'nothing', takesEarlier: true },
  tracked: { weight: 1, replaces: 'own', takesEarlier: true },
  always: { weight: 1, replaces: 'all', takesEarlier: false },
}
