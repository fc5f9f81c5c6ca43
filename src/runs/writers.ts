import type { Deps } from '../pipeline/deps.ts'
import { sharedBatchSize } from '../pipeline/batch-size.ts'
import { type WriteBackResult, writeBackBatch } from '../pipeline/write-back.ts'
import type { Source } from '../sources/source.ts'
import { WakeSignal } from '../util/wake-signal.ts'
import type { RunCounters } from './counters.ts'
import { unlessBroken } from './source-health.ts'
import { type LoopOptions, loopTask, type WorkerTask } from './loop.ts'

/** How soon answers are to be written back. `sync`: a user waits for them. `last`: there are no others to gather. */
export type AnswerUrgency = 'last' | 'sync' | 'none'

/** How soon a writer begins its next batch, in milliseconds: after a delivery or answers of live sync, and after others. */
const WRITE_WITHIN_MS = 200
const GATHER_MS = 1_000
/** This number of answers waits for no more: what a batch costs besides its rows is a few percent of it then. */
const GATHERED_ANSWERS = 1_000
/** A batch that takes longer keeps answers waiting, in milliseconds. */
const LONG_BATCH_MS = 500
/** This number of answers waits for no others, and is worth a batch of the second writer when no others will come. */
const WORTH_A_BATCH = 1_000

interface SourceWriter {
  readonly source: Source
  readonly wakeSignal: WakeSignal
  /** What waits is to be written now. */
  readonly due: WakeSignal
  /** There is enough for the second writer. */
  readonly overflow: WakeSignal
  /** Answers were stored for it since it began a batch: the queue need not be looked at first. */
  isQueued: boolean
  /** The latest batch was full. */
  hasMore: boolean
  /** The answers of the latest batch were counted by this process. */
  isCounted: boolean
  /** Batches that are being written. */
  underWay: number
  /** Since when the first writer writes one, by `performance.now()`. */
  busySince: number | null
}

/**
 * Writes answers back, two loops a source. An idle one writes the first answers at once; then they gather by number and not
 * by time, because those of a slow service come a few at a time and a batch costs the same however few it writes.
 */
export class Writers {
  readonly #deps: Pick<Deps, 'db' | 'policy' | 'metrics' | 'log'>
  readonly #signal: AbortSignal
  readonly #forEachRun: (act: (counters: RunCounters) => void) => void
  readonly #isEnding: () => boolean
  readonly #writers: readonly SourceWriter[]
  /** Answers stored that no batch was begun for; of several sources, since one was begun. */
  #unwritten = 0
  /** Until the writers are due. */
  #timer: NodeJS.Timeout | null = null

  /**
   * @param forEachRun acts on the counters of each run of this process
   * @param isEnding whether the runs of this process have picked all their rows
   */
  constructor(
    deps: Pick<Deps, 'db' | 'policy' | 'metrics' | 'log'>,
    options: { readonly sources: readonly Source[]; readonly signal: AbortSignal },
    forEachRun: (act: (counters: RunCounters) => void) => void,
    isEnding: () => boolean,
  ) {
    this.#isEnding = isEnding
    this.#deps = deps
    this.#signal = options.signal
    this.#forEachRun = forEachRun
    this.#writers = options.sources.map((source) => ({
      source,
      wakeSignal: new WakeSignal(),
      due: new WakeSignal(),
      overflow: new WakeSignal(),
      isQueued: false,
      hasMore: false,
      isCounted: false,
      underWay: 0,
      busySince: null,
    }))
  }

  /**
   * There are answers to write, within a moment in which others may come.
   * @param options.stored how many were stored, for some source; 0: not known
   * @param options.areLast no others are awaited
   */
  wake({ stored = 0, areLast = false } = {}): void {
    this.#unwritten += stored
    for (const writer of this.#writers) {
      // Of several sources most have none of them, and a claim in vain sends four statements in place of one.
      if (stored > 0 && this.#writers.length === 1) writer.isQueued = true
      if (stored === 0) writer.isCounted = false
      writer.wakeSignal.notify()
      if (this.#isForSecond(writer)) writer.overflow.notify()
    }
    if (areLast || this.#unwritten >= WORTH_A_BATCH) this.#writeNow()
    else this.#timer ??= setTimeout(() => this.#writeNow(), WRITE_WITHIN_MS).unref()
  }

  /** Answers were stored. */
  onAnswers(answers: number, urgency: AnswerUrgency): void {
    this.#unwritten += answers
    if (urgency === 'sync') return this.wake()
    for (const { wakeSignal } of this.#writers) wakeSignal.notify()
    if (urgency === 'last' || this.#unwritten >= GATHERED_ANSWERS) this.#writeNow()
  }

  tasks(): WorkerTask[] {
    return this.#writers.flatMap((writer) => [
      this.#task(
        writer,
        'write back',
        { wakeSignal: writer.wakeSignal, gather: { ms: GATHER_MS, enough: writer.due } },
        async () => {
          if (this.#isAllClaimed(writer)) return 0
          writer.busySince = performance.now()
          try {
            const done = await this.#write(writer)
            writer.hasMore = done === Number.POSITIVE_INFINITY
            return done
          } finally {
            writer.busySince = null
          }
        },
      ),
      this.#task(
        writer,
        'write back (overflow)',
        { wakeSignal: writer.overflow, gather: { ms: GATHER_MS, enough: writer.overflow } },
        async () => {
          const done = this.#isBehind(writer) ? await this.#write(writer) : 0
          // The first one looks whether that was all.
          if (done === Number.POSITIVE_INFINITY) {
            writer.wakeSignal.notify()
            writer.due.notify()
          }
          return done
        },
      ),
    ])
  }

  #task(
    { source: { name: source } }: SourceWriter,
    verb: string,
    pacing: Pick<LoopOptions, 'wakeSignal' | 'gather'>,
    tick: () => Promise<number>,
  ): WorkerTask {
    const name = `${verb} ${source}`
    return loopTask({ ...pacing, name, log: this.#deps.log, signal: this.#signal, tick }, source)
  }

  /** @returns how many rows it wrote; infinity: there is more to write at once */
  async #write(writer: SourceWriter): Promise<number> {
    const isOnly = this.#writers.length === 1
    const waiting = isOnly ? this.#unwritten : 0
    // Near the end each takes half, so that neither is left with a large batch while the other has nothing to do.
    const isShared = this.#isEnding() && waiting >= 2 * WORTH_A_BATCH
    const limit = Math.min(sharedBatchSize(writer.source).rows, isShared ? Math.ceil(waiting / 2) : Infinity)
    const left = Math.max(0, waiting - limit)
    this.#unwritten = left
    writer.isCounted = waiting > 0
    const isQueued = writer.isQueued || waiting > 0
    writer.isQueued = false
    // It takes what is queued so far: what was to be written soon is written now.
    if (isOnly) this.#clearTimer()
    writer.underWay++
    if (this.#isForSecond(writer)) writer.overflow.notify()
    const result = await this.#writeBatch(writer.source, { isQueued, limit }).finally(() => writer.underWay--)
    const isAlone = writer.underWay === 0
    // Of these no row waits for any, or another process has written it.
    if (!result.more && isAlone) this.#unwritten = Math.max(0, this.#unwritten - left)
    const isAllClaimed = waiting > 0 && result.rows > 0 && this.#unwritten === 0
    const hasMore = result.more && (isAlone || !isAllClaimed)
    this.#forEachRun((counters) => {
      counters.written += result.cells
      if (result.rows > 0) counters.touch()
      // Not after a full batch: another follows at once.
      if (isAllClaimed ? isAlone : !result.more && (result.rows > 0 || writer.hasMore))
        counters.maybeComplete.notify()
    })
    return hasMore ? Number.POSITIVE_INFINITY : result.rows
  }

  /** What is answered for a source that is broken waits until it is mended. */
  async #writeBatch(source: Source, options: Parameters<typeof writeBackBatch>[2]): Promise<WriteBackResult> {
    const result = await unlessBroken(this.#deps, source, () => writeBackBatch(this.#deps, source, options))
    if (result !== null) return result
    this.#forEachRun((counters) => counters.maybeComplete.notify())
    return { rows: 0, enriched: 0, cells: 0, deferred: 0, more: false }
  }

  /**
   * Whether all that waits is in the batches under way, as far as this process has counted it: it is queued until they end,
   * and would be claimed in vain.
   */
  #isAllClaimed({ isCounted, underWay }: SourceWriter): boolean {
    return isCounted && underWay > 0 && this.#unwritten === 0
  }

  /** Whether there is enough for a batch of the second writer, beside that of the first. */
  #isForSecond({ underWay }: SourceWriter): boolean {
    if (this.#writers.length > 1 || underWay === 0) return false
    return this.#unwritten >= (this.#isEnding() ? 1 : 2) * WORTH_A_BATCH
  }

  /** Whether a second writer helps: there is enough for it, batches are full, or one takes long. */
  #isBehind(writer: SourceWriter): boolean {
    if (this.#isForSecond(writer)) return true
    if (this.#isAllClaimed(writer)) return false
    const { isCounted, hasMore, busySince } = writer
    return (hasMore && !isCounted) || (busySince !== null && performance.now() - busySince > LONG_BATCH_MS)
  }

  #clearTimer(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  #writeNow(): void {
    this.#clearTimer()
    for (const { due } of this.#writers) due.notify()
  }
}
