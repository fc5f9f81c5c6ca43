import type { Deps } from '../pipeline/deps.ts'
import { writeBackBatch } from '../pipeline/write-back.ts'
import type { Source } from '../sources/source.ts'
import { WakeSignal } from '../util/wake-signal.ts'
import type { RunCounters } from './counters.ts'
import { type LoopOptions, runLoop, type WorkerTask } from './loop.ts'

/** How soon answers are to be written back. `sync`: a user waits for them. `last`: there are no others to gather. */
export type AnswerUrgency = 'last' | 'sync' | 'none'

/** How soon a writer begins its next batch, in milliseconds: after a delivery or answers of live sync, and after others. */
const WRITE_WITHIN_MS = 200
const GATHER_MS = 1_000
/** This number of answers waits for no more: what a batch costs besides its rows is a few percent of it then. */
const GATHERED_ANSWERS = 500
/** A batch that takes longer keeps answers waiting, in milliseconds. */
const LONG_BATCH_MS = 500

interface SourceWriter {
  readonly source: Source
  readonly wakeSignal: WakeSignal
  /** What waits is to be written now. */
  readonly due: WakeSignal
  /** Answers were stored for it since it began a batch: the queue need not be looked at first. */
  isQueued: boolean
  /** The latest batch was full. */
  hasMore: boolean
  /** Since when a batch is being written, by `performance.now()`. */
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
  readonly #writers: readonly SourceWriter[]
  /** Answers stored since a writer began a batch. */
  #unwritten = 0
  /** Until the writers are due. */
  #timer: NodeJS.Timeout | null = null

  /** @param forEachRun acts on the counters of each run of this process */
  constructor(
    deps: Pick<Deps, 'db' | 'policy' | 'metrics' | 'log'>,
    options: { readonly sources: readonly Source[]; readonly signal: AbortSignal },
    forEachRun: (act: (counters: RunCounters) => void) => void,
  ) {
    this.#deps = deps
    this.#signal = options.signal
    this.#forEachRun = forEachRun
    this.#writers = options.sources.map((source) => ({
      source,
      wakeSignal: new WakeSignal(),
      due: new WakeSignal(),
      isQueued: false,
      hasMore: false,
      busySince: null,
    }))
  }

  /**
   * There are answers to write, within a moment in which others may come.
   * @param areStored certainly, for some source
   */
  wake({ areStored = false } = {}): void {
    for (const writer of this.#writers) {
      // Of several sources most have none of them, and a claim in vain sends four statements in place of one.
      if (areStored && this.#writers.length === 1) writer.isQueued = true
      writer.wakeSignal.notify()
    }
    this.#timer ??= setTimeout(() => this.#writeNow(), WRITE_WITHIN_MS).unref()
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
        { wakeSignal: new WakeSignal(), paceMs: GATHER_MS },
        async () => (isBehind(writer, performance.now()) ? this.#write(writer) : 0),
      ),
    ])
  }

  #task(
    { source: { name: source } }: SourceWriter,
    verb: string,
    pacing: Pick<LoopOptions, 'wakeSignal' | 'paceMs' | 'gather'>,
    tick: () => Promise<number>,
  ): WorkerTask {
    const name = `${verb} ${source}`
    const options = { ...pacing, name, log: this.#deps.log, signal: this.#signal, tick }
    return { name, source, start: () => runLoop(options) }
  }

  /** @returns how many rows it wrote; infinity: there is more to write at once */
  async #write(writer: SourceWriter): Promise<number> {
    this.#unwritten = 0
    const { isQueued } = writer
    writer.isQueued = false
    // It takes all that is queued so far: what was to be written soon is written now.
    if (this.#writers.length === 1) this.#clearTimer()
    const result = await writeBackBatch(this.#deps, writer.source, { isQueued })
    this.#forEachRun((counters) => {
      counters.written += result.cells
      if (result.rows > 0) counters.touch()
      // Not after a full batch: another follows at once.
      if (!result.more && (result.rows > 0 || writer.hasMore)) counters.maybeComplete.notify()
    })
    return result.more ? Number.POSITIVE_INFINITY : result.rows
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

/** Whether a second writer helps: batches are full, or one takes long. */
const isBehind = ({ hasMore, busySince }: SourceWriter, now: number): boolean =>
  hasMore || (busySince !== null && now - busySince > LONG_BATCH_MS)
