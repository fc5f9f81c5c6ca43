import { forgetSubject } from '../../../src/actions/forget.ts'
import { parseForgetTarget } from '../../../src/actions/forget-target.ts'
import { remapSource } from '../../../src/actions/remap.ts'
import { undoRun } from '../../../src/actions/undo/undo.ts'
import { restoreAllReturned, markAllDeleted } from '../../../src/pipeline/deleted-rows.ts'
import type { Deps } from '../../../src/pipeline/deps.ts'
import type { Source } from '../../../src/sources/source-model.ts'
import type { TestDatabase } from '../../support/clone.ts'
import { lookupKey, parseWorld, type ModelState, type Service } from './model-state.ts'
import type { Ownership } from './ownership.ts'
import type { People } from './people.ts'

const { signal } = new AbortController()

/** What people do with commands beside runs: undo, remap, forget, and the search for deleted rows. */
export class Maintenance {
  readonly violations: string[] = []
  readonly #deps: Deps
  readonly #source: Source
  readonly #database: TestDatabase
  readonly #model: ModelState
  readonly #ownership: Ownership
  readonly #people: People

  constructor(
    {
      database,
      deps,
      source,
    }: { readonly database: TestDatabase; readonly deps: Deps; readonly source: Source },
    {
      model,
      ownership,
      people,
    }: { readonly model: ModelState; readonly ownership: Ownership; readonly people: People },
  ) {
    this.#database = database
    this.#deps = deps
    this.#source = source
    this.#model = model
    this.#ownership = ownership
    this.#people = people
  }

  /** Undoes a run that has ended: its own writes, or what it has undone. */
  async undo(run: number): Promise<void> {
    const undo = () => undoRun({ ...this.#deps, owner: 'model' }, { run, dryRun: false, signal })
    await this.#ownership.duringUndo(run, this.#people.locked, undo)
  }

  async remap(): Promise<void> {
    const options = { source: this.#source, dryRun: false, sample: 0, signal }
    const deps = { ...this.#deps, owner: 'model' }
    await this.#ownership.duringWrite(this.#people.locked, () =>
      remapSource([{ deps, source: this.#source, service: null }], options),
    )
  }

  /** As each run does, before it picks. */
  async restoreReturned(): Promise<void> {
    await restoreAllReturned(this.#deps, this.#source, signal)
  }

  async noticeDeleted(): Promise<void> {
    await this.restoreReturned()
    await markAllDeleted(this.#deps, this.#source, signal)
    const rows = await this.#database.query<{ row: number }>(
      'select key::int as row from fillrate.rows where deleted_at is not null',
    )
    for (const { row } of rows) this.#ownership.notice(row)
  }

  /** Erases the person who has this row. */
  async forget(row: number): Promise<void> {
    const [found] = await this.#database.query<{ email: string }>('select email from worlds where id = $1', [
      row,
    ])
    if (found === undefined) return
    const target = parseForgetTarget('email', found.email)
    if (typeof target === 'string') throw new Error(target)
    const before = await this.#listLookups()
    const options = { dryRun: false, includeLinked: true }
    const report = await forgetSubject({ ...this.#deps, sources: [this.#source] }, [target], options)
    for (const { table, column } of report.remaining)
      this.violations.push(`${found.email} is erased, and still in ${table}.${column}`)
    const after = new Set((await this.#listLookups()).map(({ key, service }) => lookupKey(key, service)))
    for (const { key, service } of before) {
      const lookup = lookupKey(key, service)
      if (key === target.key && after.has(lookup))
        this.violations.push(`${lookup} is erased, and still a lookup`)
      if (after.has(lookup)) continue
      this.#model.erase(lookup)
      if (parseWorld(key) !== parseWorld(found.email))
        this.violations.push(`${lookup} was erased with ${found.email}`)
    }
    for (const service of [0, 1] as const) this.#model.erase(lookupKey(target.key, service))
    for (const one of [0, 1, 2]) this.#ownership.erase(row - (row % 3) + one)
  }

  async #listLookups(): Promise<{ readonly key: string; readonly service: Service }[]> {
    const rows = await this.#database.query<{ key: string; service: Service }>(
      'select key, service_id::int as service from fillrate.lookups',
    )
    return rows
  }
}
