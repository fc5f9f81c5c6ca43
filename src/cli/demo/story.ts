import { coverage, type Coverage } from '../../sources/coverage.ts'
import type { Plan } from '../../pipeline/plan.ts'
import type { RunProgress } from '../../pipeline/run/progress.ts'
import type { RunReport } from '../../pipeline/run/report.ts'
import { status, type Status } from '../../pipeline/status.ts'
import type { Stats } from '../../sandbox/stats.ts'
import { noteContacts, type Example } from './examples.ts'
import type { Filled } from './screen/filled.ts'
import { noteTypedValues, type TypedValues } from './typed-values.ts'
import type { World } from './world.ts'

/** What a demo did, and how it can be told that it did it. */
export interface Story {
  readonly run: RunReport
  readonly filled: readonly Filled[]
  readonly status: Status
  /** Questions that were answered before the run. */
  readonly known: number
  /** Deliveries that this run took. */
  readonly deliveries: number
  readonly service: Stats
  readonly typedValues: TypedValues
  readonly examples: readonly Example[]
}

/** How long deliveries are waited for when nothing else is left to do: longer than a job's deadline. */
const WAIT_MS = 20_000

const pass = (signal: AbortSignal) =>
  ({ sources: [], limit: null, where: null, route: 'auto', signal }) as const

/** What a run would ask. */
export const makePlan = ({ app }: World, signal: AbortSignal): Promise<Plan> => app.plan(pass(signal))

/** Runs once, and looks at the database and the service before and after. */
export async function makeRun(
  { app, client, service }: World,
  options: { readonly signal: AbortSignal; readonly onProgress: (progress: RunProgress) => void },
): Promise<Story> {
  const values = await noteTypedValues(client)
  const contacts = await noteContacts(client)
  const before = await coverages()
  const known = await counted('fillrate.lookups where resolved_at is not null')
  const deliveriesBefore = await counted('fillrate.deliveries')
  service.reset()

  const report = await app.run({ ...pass(options.signal), waitMs: WAIT_MS, onProgress: options.onProgress })

  const after = await coverages()
  return {
    run: report,
    filled: [...app.sources.keys()].map((source, n) => ({
      source,
      before: before[n] ?? NOTHING,
      after: after[n] ?? NOTHING,
    })),
    status: await status(app.db, [...app.sources.keys()], app.scope),
    known,
    deliveries: (await counted('fillrate.deliveries')) - deliveriesBefore,
    service: service.stats(),
    typedValues: await values.check(),
    examples: await contacts.examples(report.run),
  }

  function coverages(): Promise<Coverage[]> {
    return Promise.all(
      [...app.sources.values()].map((source) => app.db.transaction().execute((tx) => coverage(tx, source))),
    )
  }

  async function counted(what: string): Promise<number> {
    const { rows } = await client.query<{ count: number }>(`select count(*)::integer as count from ${what}`)
    return rows[0]?.count ?? 0
  }
}

const NOTHING: Coverage = { eligible: 0, columns: [] }
