import type { Deps } from '../pipeline/deps.ts'
import { checkBreakage, unlessBroken } from '../runs/source-health.ts'
import type { Source } from '../sources/source-model.ts'
import { readTriggerMark, readTriggerState } from '../sources/triggers/install.ts'

/** How often it is checked whether any trigger has changed, and how often all of them are. */
const MARK_MS = 3_000
const CHECK_MS = 60_000

/** Watches the triggers of the followed sources: without them changes wait for the next scheduled run. */
export class TriggerWatch {
  readonly #deps: Pick<Deps, 'db' | 'log'>
  readonly #sources: readonly Source[]
  /** By source, why its triggers may miss changes. */
  readonly #missing = new Map<string, string>()
  #mark: string | null = null
  #markReadAt = Number.NEGATIVE_INFINITY
  #checkedAt = Number.NEGATIVE_INFINITY

  constructor(deps: Pick<Deps, 'db' | 'log'>, sources: readonly Source[]) {
    this.#deps = deps
    this.#sources = sources
  }

  /**
   * Checks the triggers of all sources, where any has changed or a minute has passed.
   * @returns by source, why changes may be missed; null: not checked
   */
  async check(): Promise<ReadonlyMap<string, string> | null> {
    const now = performance.now()
    if (now - this.#markReadAt < MARK_MS) return null
    const mark = await readTriggerMark(this.#deps.db)
    this.#markReadAt = now
    if (mark === this.#mark && now - this.#checkedAt <= CHECK_MS) return null
    for (const source of this.#sources)
      await unlessBroken(this.#deps, source, () => this.#checkSource(source))
    this.#mark = mark
    this.#checkedAt = now
    return new Map(this.#missing)
  }

  async #checkSource(source: Source): Promise<void> {
    const there = await readTriggerState(this.#deps.db, source)
    if (there.state === 'right') this.#missing.delete(source.name)
    // Those of a table that is gone are part of its condition.
    else if (!(await checkBreakage(this.#deps, source)))
      this.#missing.set(source.name, there.state === 'wrong' ? there.why : 'its triggers are not there')
  }
}
