import type { ClassifiedSchema, ClassifiedTable } from './classify.ts'
import type { IntrospectedTable } from './introspect.ts'
import { nameHint } from './kinds.ts'
import { hasSameKey } from './relations.ts'
import { headNoun, splitIdentifier } from './words.ts'

/** What other tables make of a table: beside contacts, those who applied for a job are none of them. Pure. */
export function setAside({ tables, relations }: ClassifiedSchema): ClassifiedTable[] {
  const isApplicants = ({ table }: ClassifiedTable): boolean =>
    /^(?:candidate|applicant)$/.test(headNoun(table.name))
  const hasPeople = tables.some((one) => one.kinds.includes('person') && !isApplicants(one))
  const hasContacts = (schema: string): boolean =>
    tables.some(
      ({ table, kinds, partyType }) =>
        table.schema === schema &&
        kinds.includes('person') &&
        partyType === null &&
        /^(?:contact|person)$/.test(headNoun(table.name)),
    )
  const isRaw = ({ table }: ClassifiedTable): boolean => splitIdentifier(table.schema).includes('raw')
  const hasOther = (one: ClassifiedTable, isIt: (other: ClassifiedTable) => boolean): boolean =>
    tables.some(
      (other) => other !== one && one.kinds.some((kind) => other.kinds.includes(kind)) && isIt(other),
    )
  const doubtOf = (one: ClassifiedTable): string | null => {
    const [kind, ...more] = one.kinds
    if (kind === undefined || one.isNamed) return null
    if (isRaw(one) && hasOther(one, (other) => !isRaw(other)))
      return 'its schema holds what is loaded; what is made of it is beside it'
    if (isApplicants(one) && hasPeople)
      return 'its rows applied for a job; there is a table of contacts beside it'
    // A form has a field for the company, whatever it is called.
    const isForm = kind === 'person' && one.person.has('company_name')
    const isUntold = more.length === 0 && !isForm && nameHint(kind, one.table.name) === 'none'
    return isUntold && hasOther(one, (other) => rowsOf(other) > rowsOf(one))
      ? `its name does not say that its rows are ${kind === 'person' ? 'people' : 'companies'} to enrich, and there are more in others`
      : null
  }
  const beside = relations.filter((one) => hasSameKey(one) && !isLoaded(one.from) && isLoaded(one.to))
  const isBeside = ({ sqlName }: ClassifiedTable): boolean =>
    beside.some(
      ({ from, to }) =>
        from.sqlName === sqlName &&
        tables.some((one) => one.sqlName === to.sqlName && one.kinds.length + one.mirrored.length > 0),
    )
  return tables.map((one) => {
    // The next load would overwrite what is written to it.
    if (!one.isNamed && one.kinds.length > 0 && beside.some(({ to }) => to.sqlName === one.sqlName))
      return {
        ...one,
        kinds: [],
        mirrored: one.kinds,
        rejection: 'its rows are loaded; what is yours is beside them',
      }
    const hasIdentity = one.kinds.includes('person') ? one.person.has('email') : one.company.has('domain')
    if (!hasIdentity && isBeside(one)) return { ...one, kinds: [] }
    const doubt = doubtOf(one)
    if (doubt !== null) return { ...one, kinds: [], possible: one.kinds, rejection: doubt }
    // Beside contacts, the persons among the customers are private ones.
    return one.partyType !== null && one.kinds.length > 1 && hasContacts(one.table.schema)
      ? { ...one, kinds: ['company'] as const }
      : one
  })
}

/** Whether a connector loads its rows. */
const isLoaded = ({ table }: Pick<IntrospectedTable, 'table'>): boolean =>
  table.columns.some(({ name }) => /^_(?:fivetran|airbyte|sdc|dlt)_/.test(name))

const rowsOf = ({ rows, sampled }: ClassifiedTable): number => Math.max(rows ?? 0, sampled)
