import type { Deps } from '../pipeline/deps.ts'
import { readCandidates } from '../pipeline/pick/candidates.ts'
import { readTriggerMark, readTriggerState } from '../sources/triggers/install.ts'
import { earliest, readSince, type SourceCursor } from '../domain/cursor.ts'
import type { Source } from '../sources/source-model.ts'
import { checkBreakage, unlessBroken } from '../runs/source-health.ts'
import * as cursors from '../store/source-state.ts'
import * as runs from '../store/runs.ts'

const POLL_PAGE_SIZE = 1_000
const MIN_INTERVAL_MS = 5_000
/** Maximum share of time spent on polling. */
const MAX_TIME_SHARE = 1 / 20
/** How often it is checked whether any trigger has changed, and how often all of them are. */
const TRIGGER_MARK_MS = 3_000
const TRIGGER_CHECK_MS = 60_000

interface PolledSource {
  readonly source: Source
  isPolled: boolean
  /** Why its triggers may miss changes that no poll finds either; null: they do not. */
  blindness: string | null
  nextPollAt: number
  /** `whole`: there were no more rows. */
  found: { readonly keys: string[]; readonly pass: cursors.CursorPass; readonly whole: boolean } | null
}

/**
 * Finds changed rows by `changedAt` if there are no triggers. A change committed late carries an older time, so each
 * poll rereads from the oldest open transaction, minus ten minutes. Rows finished with the same inputs are excluded
 * in SQL.
 */
export class Polling {
  readonly #deps: Pick<Deps, 'db' | 'log' | 'now' | 'service'>
  readonly #sources: readonly PolledSource[]

  readonly #minIntervalMs: number
  #triggerMark: string | null = null
  #markReadAt = Number.NEGATIVE_INFINITY
  #triggersCheckedAt = Number.NEGATIVE_INFINITY

  /** @param leastMs minimum interval between two polls of a source */
  constructor(
    deps: Pick<Deps, 'db' | 'log' | 'now' | 'service'>,
    sources: readonly Source[],
    leastMs = MIN_INTERVAL_MS,
  ) {
    this.#deps = deps
    this.#minIntervalMs = leastMs
    this.#sources = sources.map((source) => ({
      source,
      isPolled: false,
      blindness: null,
      nextPollAt: Number.NEGATIVE_INFINITY,
      found: null,
    }))
  }

  /** Polls the sources that are due. */
  async pollDue(sources: readonly string[]): Promise<void> {
    for (const one of this.#sources.filter(({ source }) => sources.includes(source.name)))
      if (one.isPolled && one.found === null && performance.now() >= one.nextPollAt)
        await unlessBroken(this.#deps, one.source, () => this.#poll(one))
  }

  /**
   * Checks the triggers of all sources, where any has changed or a minute has passed.
   * @returns by source, why changes may be missed; null: not checked
   */
  async checkTriggers(): Promise<ReadonlyMap<string, string> | null> {
    const now = performance.now()
    if (now - this.#markReadAt < TRIGGER_MARK_MS) return null
    const mark = await readTriggerMark(this.#deps.db)
    this.#markReadAt = now
    const isDue = now - this.#triggersCheckedAt > TRIGGER_CHECK_MS
    if (mark === this.#triggerMark && !isDue) return null
    for (const one of this.#sources)
      await unlessBroken(this.#deps, one.source, () => this.#checkTriggersOf(one))
    this.#triggerMark = mark
    this.#triggersCheckedAt = now
    return new Map(
      this.#sources.flatMap(({ source, blindness }) =>
        blindness === null ? [] : [[source.name, blindness] as const],
      ),
    )
  }

  /** Found rows that are not picked yet. */
  listFound(sources: readonly string[]): { readonly source: Source; readonly keys: string[] }[] {
    return this.#sources.flatMap(({ source, found }) =>
      found && sources.includes(source.name) ? [{ source, keys: found.keys }] : [],
    )
  }

  /** @param all whether all found rows were picked; if not, they are found again */
  async markPicked(source: Source, all: boolean): Promise<void> {
    const one = this.#sources.find((polled) => polled.source === source)
    if (!one?.found) return
    if (all && one.found.whole) await this.#saveCursor(one, one.found.pass)
    else if (all) one.nextPollAt = Number.NEGATIVE_INFINITY
    one.found = null
  }

  async #checkTriggersOf(one: PolledSource): Promise<void> {
    const { db, log } = this.#deps
    const { source } = one
    const there = await readTriggerState(db, source)
    const why =
      there.state === 'right' ? null : there.state === 'wrong' ? there.why : 'its triggers are not there'
    // Those of a table that is gone are part of its condition.
    if (why !== null && (await checkBreakage(this.#deps, source))) return
    const isPolled = why !== null && source.mapping.changedAt !== null
    one.blindness = isPolled ? null : why
    if (isPolled && !one.isPolled)
      log.warn(
        {
          event: 'triggers_outdated',
          source: source.name,
          why,
          todo: `fillrate follow install ${source.name}`,
        },
        'triggers missing or outdated: polling by changedAt',
      )
    one.isPolled = isPolled
  }

  async #poll(one: PolledSource): Promise<void> {
    const { db, service } = this.#deps
    const { source } = one
    const began = performance.now()
    const pass = await cursors.openCursor(db, cursorName(source), CURSOR_HASH).then(withoutFullPass)
    const changedSince = pass.since
    const live = await runs.listHolding(db)
    const keys: string[] = []
    let after: string | null = null
    do {
      const page = await readCandidates(db, source, {
        after,
        size: POLL_PAGE_SIZE,
        where: null,
        changedSince,
        live,
        service,
      })
      keys.push(...page.candidates.map((candidate) => candidate.key))
      after = page.next
    } while (after !== null && keys.length < POLL_PAGE_SIZE)
    const tookMs = performance.now() - began
    one.nextPollAt = performance.now() + Math.max(this.#minIntervalMs, tookMs / MAX_TIME_SHARE)
    if (keys.length > 0) one.found = { keys, pass, whole: after === null }
    else await this.#saveCursor(one, pass)
  }

  async #saveCursor({ source }: PolledSource, pass: cursors.CursorPass): Promise<void> {
    await cursors.saveCursor(this.#deps.db, cursorName(source), CURSOR_HASH, pass)
  }
}

/** A poll without a cursor starts now: older rows, and what only a full pass finds, are left to scheduled runs. */
function withoutFullPass(pass: cursors.CursorPass): cursors.CursorPass {
  if (pass.since !== null) return pass
  const { now, running } = pass.start
  const oldest = running.map(({ startedAt }) => startedAt).reduce<Date>(earliest, now)
  const before = pass.cursor ?? { changedUntil: oldest, startedAt: now, running: new Map() }
  const cursor: SourceCursor = {
    ...before,
    changedUntil: earliest(now, before.changedUntil),
    fullPassAt: now,
  }
  return { ...pass, cursor, since: readSince(cursor, now) }
}

/** Separate from the cursor of full passes. Source names contain no blanks. */
const cursorName = (source: Source): string => `follow ${source.name}`
const CURSOR_HASH = 'follow'
