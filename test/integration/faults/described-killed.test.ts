import { expect, test } from 'vitest'
import {
  countKnown,
  countSpend,
  createPeople,
  MAILED,
  NAMED,
  type PeopleSource,
  runKilled,
  type Scaled,
} from '../../support/described-runs.ts'
import { DROPCONTACT_KEY, DROPCONTACT_LIMIT, playDropcontact } from '../../support/stand-ins/dropcontact.ts'
import { HUNTER_KEY, HUNTER_LIMIT, playHunter } from '../../support/stand-ins/hunter.ts'
import { ICYPEAS_KEY, ICYPEAS_LIMIT, playIcypeas } from '../../support/stand-ins/icypeas.ts'
import { LEADIQ_KEY, LEADIQ_LIMIT, playLeadiq } from '../../support/stand-ins/leadiq.ts'
import { playSnov, SNOV_CLIENT, SNOV_LIMIT } from '../../support/stand-ins/snov.ts'

const PEOPLE = 48

interface Service {
  readonly module: string
  readonly play: typeof playHunter | typeof playSnov | typeof playDropcontact
  readonly key: string
  readonly inputs: Readonly<Record<string, string>>
  readonly title: string
  readonly limit: Scaled['limit']
  /** Default: all who are known. */
  readonly filled?: number
}

const SERVICES: readonly Service[] = [
  {
    module: 'hunter',
    play: playHunter,
    key: HUNTER_KEY,
    inputs: NAMED,
    title: 'position',
    limit: { person: HUNTER_LIMIT },
    // One of those who are known asked not to be processed.
    filled: countKnown(PEOPLE) - 1,
  },
  {
    module: 'leadiq',
    play: playLeadiq,
    key: LEADIQ_KEY,
    inputs: MAILED,
    title: 'position.title',
    limit: LEADIQ_LIMIT,
  },
  {
    module: 'snov',
    play: playSnov,
    key: SNOV_CLIENT,
    inputs: MAILED,
    title: 'currentJob.position',
    limit: SNOV_LIMIT,
  },
  {
    module: 'snov-finder',
    play: playSnov,
    key: SNOV_CLIENT,
    inputs: NAMED,
    title: 'email',
    limit: SNOV_LIMIT,
  },
  {
    module: 'dropcontact',
    play: playDropcontact,
    key: DROPCONTACT_KEY,
    inputs: NAMED,
    title: 'job',
    limit: DROPCONTACT_LIMIT,
  },
  {
    module: 'icypeas',
    play: playIcypeas,
    key: ICYPEAS_KEY,
    inputs: NAMED,
    title: 'email',
    limit: ICYPEAS_LIMIT,
  },
]

test.each(SERVICES)(
  '$module: three SIGKILLs lose nothing, and what is paid twice was counted as in doubt',
  async ({ module, play, key, inputs, title, limit, filled = countKnown(PEOPLE) }) => {
    const sources: PeopleSource[] = [{ table: 'people', people: PEOPLE, inputs, title }]
    const database = await createPeople(sources)
    const standIn = await play({ hasFaults: true, latencyMs: [20, 60] })
    const { report, killed } = await runKilled({
      database,
      module: `examples/services/${module}.ts`,
      scaled: { limit, after: '300ms' },
      standIn,
      sources,
      key,
      killAfter: [10, 24, 38],
    })
    expect(killed).toBe(3)
    expect(report).toMatchObject({ status: 'completed', rows: { waiting: 0, failed: 0 } })
    expect(await database.count('people where title is not null')).toBe(filled)
    expect(standIn.refused()).toBe(0)
    const { credits, inDoubt, callsInDoubt } = await countSpend(database)
    const billed = standIn.credits()
    expect(billed).toBeGreaterThanOrEqual(credits)
    expect(billed).toBeLessThanOrEqual(credits + inDoubt)
    expect(standIn.billedAgain().times).toBeLessThanOrEqual(callsInDoubt)
    expect(new Set(standIn.billed.keys()).size).toBe(filled)
  },
)
