import type { ClassifiedTable } from './classify.ts'
import { headNoun } from './words.ts'

/** Beside a table of contacts, those who sign in or applied for a job are none of them. Pure. */
export function setAside(tables: readonly ClassifiedTable[]): ClassifiedTable[] {
  const reasonOf = ({ table, isUsers }: ClassifiedTable): string | null => {
    if (isUsers) return 'its rows sign in to your software; there is a table of contacts beside it'
    const isApplicants = /^(?:candidate|applicant)$/.test(headNoun(table.name))
    return isApplicants ? 'its rows applied for a job; there is a table of contacts beside it' : null
  }
  const hasPeople = tables.some((one) => one.kinds.includes('person') && reasonOf(one) === null)
  const hasContacts = (schema: string): boolean =>
    tables.some(
      ({ table, kinds, partyType }) =>
        table.schema === schema &&
        kinds.includes('person') &&
        partyType === null &&
        /^(?:contact|person)$/.test(headNoun(table.name)),
    )
  return tables.map((one) => {
    // Beside contacts, the persons among the customers are private ones.
    if (one.partyType?.isFlag === true && one.kinds.length > 1 && hasContacts(one.table.schema))
      return { ...one, kinds: ['company'] as const }
    const reason = one.kinds.length > 0 && hasPeople && !one.isNamed ? reasonOf(one) : null
    return reason === null ? one : { ...one, kinds: [], rejection: reason }
  })
}
