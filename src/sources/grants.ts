/** A privilege that a role lacks on one object. Names are SQL, quoted where needed. */
export interface Grant {
  /** `SCHEMA crm`, `crm.contacts`, `FUNCTION crm.slug(text)`. */
  readonly on: string
  readonly privilege: 'USAGE' | 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE' | 'EXECUTE' | 'CREATE'
  /** Null: on the whole object. */
  readonly columns: readonly string[] | null
  readonly role: string
}

/** The statements for all grants, one for each object, those on schemas first. Pure. */
export function grantStatements(grants: readonly Grant[]): string[] {
  const objects = [...new Map(grants.map((grant) => [`${grant.on} ${grant.role}`, grant])).values()]
  const rank = ({ on }: Grant): number => (on.startsWith('SCHEMA ') ? 0 : on.includes('(') ? 2 : 1)
  return objects
    .toSorted((a, b) => rank(a) - rank(b))
    .map(({ on, role }) => {
      const own = grants.filter((grant) => grant.on === on && grant.role === role)
      const privileges = [...new Set(own.map(({ privilege }) => privilege))].map((privilege) => {
        const columns = own.filter((grant) => grant.privilege === privilege).map((grant) => grant.columns)
        const names = [...new Set(columns.flatMap((list) => list ?? []))]
        return columns.includes(null) ? privilege : `${privilege} (${names.join(', ')})`
      })
      return `GRANT ${privileges.join(', ')} ON ${on} TO ${role};`
    })
}
