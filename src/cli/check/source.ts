import type { Problem } from '../../config/problems.ts'
import type { SourceMapping } from '../../domain/mapping.ts'
import { describeSource } from '../../sources/describe-source.ts'
import { explainPageFailure } from '../../sources/page-failure.ts'
import type { PageRow } from '../../sources/page.ts'
import { type Source, openSource } from '../../sources/source.ts'
import { FIRST_PAGE, findVolatileInputs, readInputs } from '../../sources/volatile-inputs.ts'
import type { Database } from '../../store/open.ts'
import { inTransaction } from '../../store/transaction.ts'
import { pluralize } from '../../util/format.ts'
import { type Finding, createFailedFinding, createFinding, toFinding } from './finding.ts'
import { listExecutors, readTriggerState } from '../../sources/triggers/install.ts'

/** A look at a table may take this long, in milliseconds: somebody waits for it, and the table is in use. */
const LOOK_MS = 10_000

/** Holds a source against the database: its names, types, privileges and expressions, then its rows and plans. */
export async function checkSource(
  db: Database,
  mapping: SourceMapping,
  env: NodeJS.ProcessEnv,
): Promise<Finding> {
  const name = `source ${mapping.name}`
  try {
    const source = await openSource(db, mapping)
    const wrong = await wrongRows(db, source)
    if (wrong.length > 0) return createFailedFinding(name, wrong)
    const remarks = await inTransaction(db, (tx) => describeSource(tx, source), LOOK_MS)
    const text = `${mapping.table}, ${pluralize(source.outputs.length, 'column')} to fill`
    return createFinding(name, remarks.length > 0 ? 'warning' : 'ok', text, { problems: remarks })
  } catch (error) {
    if (isTooSlow(error)) return createFinding(name, 'warning', mapping.table, { problems: [tooSlow] })
    return toFinding(name, error, env)
  }
}

/** What is wrong with the first rows: joins that double one, an expression that fails, or never gives the same twice. */
async function wrongRows(db: Database, source: Source): Promise<readonly Problem[]> {
  const read = (of: readonly PageRow[] | null): Promise<readonly PageRow[]> =>
    inTransaction(db, (tx) => readInputs(tx, source, of), LOOK_MS)
  try {
    const first = await read(null)
    const readings = [first, await read(first)]
    if (findVolatileInputs(source, readings).length === 0) return []
    return findVolatileInputs(source, [...readings, await read(first)])
  } catch (error) {
    const problems = await explainPageFailure(db, source, FIRST_PAGE, error)
    if (problems === null) throw error
    return problems.problems
  }
}

/** Postgres has ended the statement at its time limit. */
const isTooSlow = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === '57014'

const tooSlow: Problem = {
  place: 'table',
  found: `its first rows took longer than ${LOOK_MS / 1_000} s, so that the rest was not looked at`,
  expected: 'pages of 1,000 rows within milliseconds',
  todo: 'Look for an index that `joins` and the sub-selects of the inputs lack, or for a lock on the table.',
}

/** Whether the triggers of a followed source are there and right. Without them there may still be a poll. */
export async function checkTriggers(db: Database, source: Source): Promise<Finding> {
  const name = `follow ${source.name}`
  const there = await readTriggerState(db, source)
  if (there.state === 'right') return createFinding(name, 'ok', 'its triggers are there and right')
  const why = there.state === 'missing' ? 'its triggers are not there' : there.why
  const todo = `Run \`fillrate follow install ${source.name}\`.`
  const isPolled = source.mapping.changedAt !== null
  return createFinding(
    name,
    isPolled ? 'warning' : 'error',
    isPolled ? `${why}: it is polled by changedAt` : why,
    {
      todo,
    },
  )
}

/** Functions of triggers that a role may use to gain the rights of their owner, of whatever source. Null: there are none. */
export async function checkTriggerFunctions(db: Database): Promise<Finding | null> {
  const open = await listExecutors(db)
  if (open.length === 0) return null
  return createFailedFinding(
    'functions',
    open.map(({ name, role }) => ({
      place: name,
      found: `${role} may execute it`,
      expected:
        'that its owner alone may: it runs with the rights of its owner, and a role could have it run code of its own',
      todo: `revoke all on function ${name} from ${role}; \`fillrate follow install\` does it for its source`,
    })),
  )
}
