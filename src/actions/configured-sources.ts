import type { RetiredSource } from '../domain/report/status.ts'
import * as retired from '../store/retire-source.ts'
import type { Deps } from '../pipeline/deps.ts'
import { dropTriggersOf, installTriggers } from '../sources/triggers/install.ts'
import type { Database } from '../store/open.ts'
import { inTransaction, type Tx } from '../store/transaction.ts'
import { pluralize, didYouMean, listNames } from '../util/text.ts'
import { chooseSource, refuseSource } from './validate-request.ts'

/** A rename, and how much was kept under the name. */
interface RenamedSource {
  readonly source: string
  readonly renamed_to: string
  readonly rows: number
}

/** A row that a write-back holds is waited for this long. Milliseconds. */
const LOCK_TIMEOUT_MS = 10_000
const NO_TIMEOUT = 0

/**
 * Renames a source, in everything that is stored of it, to its name in the configuration. Nothing is
 * looked up again, and undo and explain know its old runs. In one transaction: no one sees both names.
 * @throws ConfigProblems where it cannot be done, with what to do; SourceProblems if the source is broken
 */
export async function renameSource(
  db: Database,
  all: Pick<Deps, 'sources' | 'brokenSources'>,
  from: string,
  to: string,
): Promise<RenamedSource> {
  const names = [...all.sources.keys(), ...(all.brokenSources?.keys() ?? [])]
  if (names.includes(from))
    refuseSource(
      from,
      'a source that the configuration still has',
      `a name that only ${to} has instead`,
      'Rename it in the configuration first, then run this command before the next run.',
    )
  if (!names.includes(to))
    refuseSource(
      to,
      'no such source in the configuration',
      `one of: ${listNames(names)}`,
      didYouMean(to, names) ?? `Name the source ${to} in the configuration first.`,
    )
  const source = chooseSource(all, to)
  return inTransaction(
    db,
    async (tx) => {
      const known = await findKept(tx, names, from)
      const taken = (await retired.listRetiredSources(tx, [])).find(({ source }) => source === to)
      if (taken !== undefined && taken.rows + taken.deleted > 0)
        refuseSource(
          to,
          `${pluralize(taken.rows + taken.deleted, 'row')} of its own, picked since it was renamed`,
          'a source without rows',
          `What is kept under ${from} stays, for undo and explain; its waiting rows end after seven days.`,
        )
      await refuseWorking(tx, from)
      await retired.renameStoredSource(tx, from, to)
      // Last: they lock the table, against its writers, until the end of the transaction.
      if (await dropTriggersOf(tx, from)) await installTriggers(tx, source)
      await retired.renameChanges(tx, from, to)
      return { source: from, renamed_to: to, rows: known.rows + known.deleted }
    },
    NO_TIMEOUT,
    LOCK_TIMEOUT_MS,
  )
}

/** What is kept under a name that is not configured. @throws ConfigProblems if nothing is */
async function findKept(
  db: Database | Tx,
  configured: readonly string[],
  name: string,
): Promise<RetiredSource> {
  const kept = await retired.listRetiredSources(db, configured)
  const found = kept.find(({ source }) => source === name)
  if (found) return found
  const others = kept.map(({ source }) => source)
  return refuseSource(
    name,
    'nothing is kept of it',
    others.length === 0
      ? 'a source that left the configuration, and there is none'
      : `one of: ${listNames(others)}`,
    didYouMean(name, others),
  )
}

/** A process that still knows the name would begin to store under it again. */
async function refuseWorking(db: Database | Tx, name: string): Promise<void> {
  const process = await retired.findProcessOf(db, name)
  if (process !== null)
    refuseSource(
      name,
      `fillrate ${process} still has it in its configuration`,
      'no process that knows the name',
      'Restart it with the changed configuration, or stop it.',
    )
  const run = await retired.findRunOf(db, name)
  if (run !== null)
    refuseSource(
      name,
      `run ${run} is working on it`,
      'no run in progress',
      `Wait until it ends, or \`fillrate cancel ${run}\`.`,
    )
}
