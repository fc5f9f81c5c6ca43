import { draftAddresses } from './address.ts'
import { draftCompanies } from './company.ts'
import type { Draft } from './draft.ts'
import { draftPeople } from './person.ts'
import { singular } from './words.ts'
import type { World } from './world.ts'

/** Every source that the tables may make: people and companies first, then what is told of companies elsewhere. Pure. */
export function draftsOf(world: World): Draft[] {
  const nameFor = namer()
  const drafts = world.tables.flatMap((judged) => {
    const { kinds, table, sides } = judged
    const isShared = kinds.length > 1
    return kinds.map((kind) => {
      const isTold = isShared && (sides !== null || kind === 'company')
      const suffix = kind === 'person' ? 'people' : 'companies'
      const name = nameFor(isTold ? `${table.name}_${suffix}` : table.name)
      return kind === 'person' ? draftPeople(world, judged, name) : draftCompanies(world, judged, name)
    })
  })
  const companies = drafts.filter((draft) => draft.base.kind === 'company')
  const addresses = world.tables.flatMap((judged) => {
    const draft = draftAddresses(world, judged, companies, (company) =>
      nameFor(`${singular(company)}_${judged.table.name}`),
    )
    return draft === null ? [] : [draft]
  })
  return [...drafts.filter((draft) => draft.base.kind === 'person'), ...companies, ...addresses]
}

/** Gives each source a name that no other has: letters, digits and `_`, as they are typed in commands. */
function namer(): (wanted: string) => string {
  const given = new Set<string>()
  return (wanted) => {
    const plain =
      wanted
        .replaceAll(/[^A-Za-z0-9_]+/g, '_')
        .replace(/^[^A-Za-z]+/, '')
        .slice(0, 50) || 'source'
    let name = plain
    for (let n = 2; given.has(name); n++) name = `${plain}_${n}`
    given.add(name)
    return name
  }
}
