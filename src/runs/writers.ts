import type { Deps, TableDeps } from '../pipeline/deps.ts'
import { writeBackBatch } from '../pipeline/write-back.ts'
import type { Source } from '../sources/source-model.ts'
import { listQueuedSources } from '../store/write-back-queue.ts'
import { WakeSignal } from '../util/wake-signal.ts'
import type { RunCounters } from './counters.ts'
import { unlessBroken } from './source-health.ts'
import { loopTask, type WorkerTask } from './loop.ts'

/** How soon answers are to be written back. `sync`: a user waits for them. `last`: there are no others to gather. */
export type AnswerUrgency = 'last' | 'sync' | 'none'

/** How soon a writer begins its next batch, in milliseconds: after a delivery or answers of live sync, and after others. */
const WRITE_WITHIN_MS = 200
const GATHER_MS = 1_000
/** This number of answers waits for no more: what a batch costs besides its rows is a few percent of it then. */
const GATHERED_ANSWERS = 1_000

/**
 * From this number of sources on, one statement for all of them says which have something to write: the sources of many tenants
 * have little each, and a claim that finds nothing costs a transaction.
 */
const MANY_SOURCES = 10
/** Above, a claim finds something soon. */
const MAX_QUEUED = 1_000

interface SourceWriter {
  readonly source: Source
  readonly wakeSignal: WakeSignal
  /** What waits is to be written now. */
  readonly due: WakeSignal
}

/**
 * Writes answers back, one loop a source. An idle one writes the first answers at once; then they gather by number and not
 * by time, because those of a slow service come a few at a time and a batch costs the same however few it writes.
 */
export class Writers {
  readonly #deps: TableDeps & Pick<Deps, 'policy' | 'metrics' | 'log'>
  readonly #signal: AbortSignal
  readonly #forEachRun: (act: (counters: RunCounters) => void) => void
  readonly #writers: readonly SourceWriter[]
  readonly #readQueued: () => Promise<ReadonlySet<string> | null>
  /** Answers stored since a batch was begun. */
  #unwritten = 0
  /** Until the writers are due. */
  #timer: NodeJS.Timeout | null = null

  /** @param forEachRun acts on the counters of each run of this process */
  constructor(
    deps: TableDeps & Pick<Deps, 'policy' | 'metrics' | 'log'>,
    options: { readonly sources: readonly Source[]; readonly signal: AbortSignal },
    forEachRun: (act: (counters: RunCounters) => void) => void,
  ) {
    this.#deps = deps
    this.#signal = options.signal
    this.#forEachRun = forEachRun
    this.#readQueued =
      options.sources.length < MANY_SOURCES
        ? () => Promise.resolve(null)
        : sharedRead(() => listQueuedSources(deps.db, MAX_QUEUED))
    this.#writers = options.sources.map((source) => ({
      source,
      wakeSignal: new WakeSignal(),
      due: new WakeSignal(),
    }))
  }

  /** There are answers to write. @param answers how many were stored, for some source; 0: not known */
  onAnswers(answers: number, urgency: AnswerUrgency): void {
    this.#unwritten += answers
    for (const { wakeSignal } of this.#writers) wakeSignal.notify()
    if (urgency === 'last' || this.#unwritten >= GATHERED_ANSWERS) this.#writeNow()
    else if (urgency === 'sync') this.#timer ??= setTimeout(() => this.#writeNow(), WRITE_WITHIN_MS).unref()
  }

  tasks(): WorkerTask[] {
    return this.#writers.map(({ source, wakeSignal, due }) => {
      let hasMore = false
      const tick = async (): Promise<number> => {
        this.#unwritten = 0
        const queued = await this.#readQueued()
        const isIdle = queued !== null && !queued.has(source.name)
        const result = isIdle
          ? NOTHING_WRITTEN
          : await unlessBroken(this.#deps, source, () => writeBackBatch(this.#deps, source))
        const { rows, cells, more } = result ?? NOTHING_WRITTEN
        this.#forEachRun((counters) => {
          counters.written += cells
          if (rows > 0) counters.touch()
          // Not after a full batch: another follows at once. What is answered for a broken source waits until it is mended.
          if (!more && (rows > 0 || hasMore || result === null)) counters.maybeComplete.notify()
        })
        hasMore = more
        return more ? Number.POSITIVE_INFINITY : rows
      }
      const { log } = this.#deps
      const gather = { ms: GATHER_MS, enough: due }
      const name = `write back ${source.name}`
      return loopTask({ name, log, signal: this.#signal, wakeSignal, gather, tick }, source.name)
    })
  }

  #writeNow(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
    for (const { due } of this.#writers) due.notify()
  }
}

const NOTHING_WRITTEN = { rows: 0, cells: 0, more: false }

/**
 * A read for many callers at once. Each gets a result that was read after its call; those that call while one is under way share the
 * next.
 */
export function sharedRead<T>(read: () => Promise<T>): () => Promise<T> {
  let current: Promise<unknown> | null = null
  let next: Promise<T> | null = null
  const start = (): Promise<T> => {
    next = null
    const started = read()
    current = started.then(
      () => (current = null),
      () => (current = null),
    )
    return started
  }
  return () => {
    if (current === null) return start()
    next ??= current.then(start)
    return next
  }
}
