import { baseOf, type Draft } from './draft.ts'
import { readField } from './field.ts'
import { sideValue } from './side-value.ts'
import type { Judged, World } from './world.ts'

/** The companies of a table. Pure. */
export function draftCompanies(world: World, judged: Judged, name: string): Draft {
  const { company: picks, sides, kinds } = judged
  const domain = picks.get('domain')
  const site = domain === undefined ? sideValue(world, judged, 'domain') : readField(domain, 't')
  const email = picks.get('email')
  const isShared = kinds.length > 1
  return {
    base: baseOf(judged, 'company', {
      name,
      joins: null,
      where: isShared && sides !== null ? [sides.company('t')] : [],
    }),
    judged,
    // Of a person's row only what is surely the company's: its city and its profile are the person's own.
    picks: isShared && sides === null ? new Map([...picks].filter(([role]) => !OF_EITHER.has(role))) : picks,
    inputs: site === null ? {} : { domain: site },
    spare:
      email && (!isShared || sides !== null) ? { mail: `split_part(${readField(email, 't')}, '@', 2)` } : {},
  }
}

const OF_EITHER: ReadonlySet<string> = new Set([
  'city',
  'state',
  'country',
  'profile',
  'twitter',
  'email',
  'name',
])
