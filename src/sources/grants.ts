/** A privilege that a role lacks on one object. Names are SQL, quoted where needed. */
export interface Grant {
  /** `SCHEMA crm`, `crm.contacts`, `FUNCTION crm.slug(text)`. */
  readonly on: string
  readonly privilege: 'USAGE' | 'SELECT' | 'INSERT' | 'UPDATE' | 'DELETE' | 'EXECUTE' | 'CREATE'
  /** Null: on the whole object. */
  readonly columns: readonly string[] | null
  readonly role: string
}

/** A policy of row-level security that a role lacks on a table. All texts are SQL. */
export interface MissingPolicy {
  readonly on: string
  readonly policy: string
  readonly command: 'SELECT' | 'UPDATE'
  /** The rows that it lets the role use. */
  readonly using: string
  readonly role: string
}

/** What a role lacks, in words. Pure. */
export function describeLack(lacking: Grant | MissingPolicy): string {
  const { on, role } = lacking
  if ('policy' in lacking)
    return `row-level security of ${on} lets the role ${role} ${lacking.command === 'SELECT' ? 'read' : 'update'} no row`
  const { privilege, columns } = lacking
  return `the role ${role} lacks ${privilege}${columns === null ? '' : ` (${columns.join(', ')})`} on ${on}`
}

/** The statements for all that a role lacks: one for each object, those on schemas first, then the policies. Pure. */
export function grantStatements(lacking: readonly (Grant | MissingPolicy)[]): string[] {
  const policies = lacking.filter((one) => 'policy' in one)
  const grants = lacking.filter((one) => 'privilege' in one)
  return [
    ...privilegeStatements(grants),
    ...new Set(
      policies.map(
        ({ on, policy, command, using, role }) =>
          `CREATE POLICY ${policy} ON ${on} FOR ${command} TO ${role} USING (${using});`,
      ),
    ),
  ]
}

function privilegeStatements(grants: readonly Grant[]): string[] {
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
