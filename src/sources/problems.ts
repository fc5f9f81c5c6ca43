import { FillrateError } from '../util/error-text.ts'

/** One mismatch between a source's mapping and the live database. */
export interface SourceProblem {
  readonly source: string
  /** Inside the source: `table`, `outputs.title`, `inputs.email`. */
  readonly place: string
  /** The current state. Lines may follow, with a caret under the place. */
  readonly found: string
  /** The key of one row that shows it: for a terminal, and for no table, log or notification. */
  readonly key?: string
  readonly expected: string
  readonly todo: string
  /** What to grant, or the policy to create, if that is the remedy. */
  readonly grant?: Grant | MissingPolicy
}

/** The mapping cannot be used on this database; nothing was run. */
export class SourceProblems extends FillrateError {
  override readonly name = 'SourceProblems'
  readonly problems: readonly SourceProblem[]

  constructor(problems: readonly SourceProblem[], options?: ErrorOptions) {
    super(mergeGrantProblems(problems).map(formatProblem).join('\n\n'), options)
    this.problems = problems
  }
}

/** What was found, with the key: for a terminal, and for no table, log or notification. */
export const showFound = ({ found, key }: Pick<SourceProblem, 'found' | 'key'>): string =>
  key === undefined ? found : `${found}, for key ${key}`

/** Replaces the problems that a grant would solve by one that holds all statements. Pure. */
export function mergeGrantProblems(problems: readonly SourceProblem[]): SourceProblem[] {
  const statements = listRemedies(problems)
  const first = problems.find(({ grant }) => grant !== undefined)
  if (first === undefined) return [...problems]
  const merged: SourceProblem = {
    source: first.source,
    place: 'privileges',
    found: `the role ${first.grant?.role ?? ''} lacks ${statements.length === 1 ? 'one' : statements.length} of them`,
    expected: 'a role that may read the tables and write the columns',
    todo: statements.join('\n'),
  }
  return [...problems.filter(({ grant }) => grant === undefined), merged]
}

/** All statements that solve problems. Pure. */
export const listRemedies = (problems: readonly Pick<SourceProblem, 'grant'>[]): string[] =>
  grantStatements(problems.flatMap(({ grant }) => grant ?? []))

const formatProblem = ({ source, place, found, expected, todo }: SourceProblem): string =>
  [`sources.${source}.${place}`, found, `expected: ${expected}`, `to do: ${todo}`].join('\n')

/** Collects the problems of one source, to report all of them at once. */
export class ProblemList {
  readonly problems: SourceProblem[] = []
  readonly #source: string

  constructor(source: string) {
    this.#source = source
  }

  add(place: string, found: string, expected: string, todo: string): void {
    this.problems.push({ source: this.#source, place, found, expected, todo })
  }

  /** Adds a problem that a grant solves. */
  addGrant(place: string, grant: Grant | MissingPolicy): void {
    const todo = grantStatements([grant]).join('')
    this.problems.push({
      source: this.#source,
      place,
      found: describeLack(grant),
      expected: 'this privilege',
      todo,
      grant,
    })
  }

  get lacksPrivileges(): boolean {
    return this.problems.some(({ grant }) => grant !== undefined)
  }
}

/** Problems in one line each part, for a trouble, a report or a log. */
export function summarizeProblems(problems: readonly SourceProblem[]): {
  readonly problem: string
  readonly mend: string
} {
  const merged = mergeGrantProblems(problems)
  return {
    problem: merged.map(({ place, found }) => squashText(`${place}: ${found}`)).join(' | '),
    mend: merged.map(({ todo }) => squashText(todo)).join(' | '),
  }
}

/** A text as one line, without the marks under a statement, which point at nothing there. */
export const squashText = (text: string): string =>
  text
    .replaceAll(/\n\s*\^+(?=[\n;]|$)/g, '')
    .replaceAll(/\s+/g, ' ')
    .trim()

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
  const policies = lacking.filter((lack) => 'policy' in lack)
  const grants = lacking.filter((lack) => 'privilege' in lack)
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
