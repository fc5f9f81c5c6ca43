import type { DiffRow } from '../domain/report/run.ts'
import * as waiting from '../store/run-progress.ts'
import * as runs from '../store/runs.ts'
import type { LookupKind } from '../domain/identifiers/kind.ts'
import { Row, statesThatGoOn, type RowState } from '../domain/row.ts'
import type { RunSpec } from '../domain/run.ts'
import { readCandidatesByKey, type PickCandidate, type LookupsBefore } from '../pipeline/pick/candidates.ts'
import { requestLookups, type RequestedPage } from '../pipeline/pick/claim.ts'
import { createPass, KeyRangeScan, PAGE_SIZE, type PickPass } from '../pipeline/pick/pass.ts'
import { pickPage } from '../pipeline/pick/pick.ts'
import { readPhaseRows } from '../pipeline/pick/read-phase.ts'
import {
  mergeDiffs,
  PreviewTally,
  previewWriteBack,
  type Preview,
  type PreviewedRow,
} from '../pipeline/write-back.ts'
import { sampleKeys } from '../sources/sample-keys.ts'
import type { MappedOutput, Source } from '../sources/source-model.ts'
import { inTransaction, TableBusyError, withTableTimeouts, type Tx } from '../store/transaction.ts'
import { describeError } from '../util/error-text.ts'
import { actInPart, type UnstoredRows } from './monitor.ts'
import type { SampleSteps } from './pick-sources.ts'
import { firstOf, isEnded, type ServicePart, type StartedRun } from './run-part.ts'
import { isFit, unlessBroken } from './source-health.ts'

/** A source at one of its services. */
interface Place {
  readonly part: ServicePart
  readonly source: Source
}

/** A row that was sampled, and how far it has come. */
interface SampledRow {
  readonly key: string
  readonly inputHash: string
  readonly place: Place
  /** What was requested for it before. */
  readonly missed: LookupsBefore & Required<Pick<LookupsBefore, 'stepsBefore'>>
  /** What it waits for; null: its next lookup is to be chosen. */
  readonly lookup: number | null
  /** What services before this one would write. */
  readonly diff: DiffRow | null
}

const NOTHING_MISSED: SampledRow['missed'] = {
  ids: [],
  kinds: [],
  dueAt: null,
  stepsBefore: { onlyBlanks: false, cellsWritten: 0 },
}

interface DryRunOptions extends Pick<RunSpec, 'limit' | 'where'> {
  /** Rows to show. */
  readonly sample: number
  readonly signal: AbortSignal
  readonly onFailure: (part: ServicePart, error: unknown) => void
}

/** Places at which a table is begun to be read. */
const SAMPLE_PLACES = 50
/** Rows per preview. */
const PREVIEW_BATCH_SIZE = 500
/** Waiting for answers takes at most this share of the time for looking for them: there may be a million. */
const READING_SHARE = 1 / 5

/**
 * The rows of a dry run, in memory alone, so that no other run waits for them. Each takes the steps of a row of a
 * run, with the lookups that it would request, and ends with what the write would do. A lookup that was called is
 * stored and paid once; a lookup that another run needs first is requested by that run.
 */
export class DryRun implements UnstoredRows {
  readonly #db: ServicePart['deps']['db']
  readonly #options: DryRunOptions
  readonly #places: readonly Place[]
  readonly #tally: PreviewTally
  /** By source and key. Null: the row has come to its end. */
  readonly #rows = new Map<string, Map<string, SampledRow | null>>()
  readonly #needed = new Set<number>()
  #answersAt = 0

  constructor(run: StartedRun, options: DryRunOptions) {
    const { deps } = firstOf(run.parts)
    this.#db = deps.db
    this.#options = options
    this.#places = run.parts.flatMap((part) => part.sources.map((source) => ({ part, source })))
    for (const { source } of this.#places) this.#rows.set(source.name, new Map())
    this.#tally = new PreviewTally(
      this.#places.map(({ source }) => source),
      options.sample,
      deps.random,
    )
  }

  /** How the sources are picked whose rows begin with a service. */
  picks(part: ServicePart): SampleSteps {
    return {
      open: (source) => this.#openPass(part, source),
      pickPage: (pass) =>
        this.#pickPage(this.#findPlace(part.name, pass.source) ?? { part, source: pass.source }, pass),
    }
  }

  /** Opens a pass. One that reads only a part of its source reads it from random places. */
  async #openPass(part: ServicePart, source: Source): Promise<PickPass> {
    const { deps, budget } = part
    const rows = Math.min(this.#options.limit ?? Infinity, budget.limit || Infinity)
    let scan = new KeyRangeScan()
    if (rows !== Infinity) {
      const places = await listRandomPlaces(deps, source, Math.min(SAMPLE_PLACES, Math.ceil(rows)))
      const size = Math.min(PAGE_SIZE, Math.ceil(rows / (places.length + 1)))
      scan = new KeyRangeScan(places, size, deps.random)
    }
    // It ends where its budget does.
    return { ...createPass(source, 'abandoned', scan), isSpent: true }
  }

  /** Picks a page as a run would, but keeps its rows in memory. */
  async #pickPage(place: Place, pass: PickPass): ReturnType<typeof pickPage> {
    const { part, source } = place
    const { budget, deps } = part
    const known = this.#rowsOf(source)
    let page: RequestedPage | null = null
    const picked = await pickPage(deps, part, pass, this.#options, {
      read: async (tick, tx, stretch) => {
        const { candidates, ...read } = await readPhaseRows(tick, tx, stretch)
        const isPicked = ({ key, settledUntil }: PickCandidate): boolean =>
          settledUntil === null && !known.has(key)
        // With whatever was requested before: it is stored, and taken from there.
        const anew = candidates.filter(isPicked).map((row) => ({ ...row, missed: NOTHING_MISSED }))
        return { ...read, candidates: anew, gone: [] }
      },
      claim: async (tx, _source, _run, candidates, bounds) => {
        // It ends where its budget does: rows after that which cost nothing, such as those without a usable input, would outweigh
        // the others in its shares. With a budget of 0, rows that cost nothing are all that is wanted.
        const isCut = pass.phase !== 'abandoned' && budget.limit !== 0
        const endsAtBudget = bounds?.endsAtBudget === true || isCut
        const limits = { max: Infinity, countsSkipped: false, ...bounds, endsAtBudget }
        page = await this.#request(tx, place, candidates, limits)
        return { ...page, picked: page.rows.length }
      },
      countPicked: () => Promise.resolve(known.size),
    })
    if (picked.picked > 0 && page !== null) this.#keep(place, page)
    return picked
  }

  #keep(place: Place, page: RequestedPage): void {
    for (const { key, inputHash } of page.rows)
      this.#set({ key, inputHash, place, missed: NOTHING_MISSED, lookup: null, diff: null })
    this.#afterRequest(place, page)
  }

  /** Chooses and stores the lookups of candidates. Lookups of all running runs are left to them. */
  async #request(
    tx: Tx,
    { part, source }: Place,
    candidates: readonly PickCandidate[],
    bounds?: Parameters<typeof requestLookups>[4],
  ): Promise<RequestedPage> {
    const live = (await runs.listRunning(tx)).map(({ id }) => id)
    return requestLookups(tx, source, { ...part, live }, candidates, bounds)
  }

  #afterRequest({ source }: Place, { rows, unanswered }: RequestedPage): void {
    const goingOn = new Set(unanswered)
    for (const { key, state, lookup } of rows) {
      const row = this.#rowsOf(source).get(key)
      if (!row) continue
      if (lookup !== null) {
        this.#needed.add(lookup)
        if (lookup !== row.lookup) this.#set({ ...row, lookup })
      } else if (goingOn.has(key)) this.#settle(row, state)
      else this.#end(row, state)
    }
  }

  #findPlace(service: string, { name }: Source): Place | undefined {
    return this.#places.find(({ part, source }) => part.name === service && source.name === name)
  }

  #rowsOf({ name }: Source): Map<string, SampledRow | null> {
    return this.#rows.get(name) ?? new Map()
  }

  #set(row: SampledRow): void {
    this.#rowsOf(row.place.source).set(row.key, row)
  }

  get #open(): SampledRow[] {
    return [...this.#rows.values()].flatMap((ofSource) =>
      [...ofSource.values()].filter((row) => row !== null),
    )
  }

  /** The row has come to its end. */
  #end({ key, place: { part, source }, diff }: SampledRow, state: RowState): void {
    this.#tally.addRow(source, part.service, state, diff)
    this.#rowsOf(source).set(key, null)
  }

  /** The row ends, or goes on to the next service (`store/write-back-queue.ts:moveToNextStep`). @param cells written here */
  #settle(row: SampledRow, state: RowState, cells = 0): void {
    const { source } = row.place
    const { next } = source.mapping.step
    const place = next && this.#findPlace(next.service, source)
    if (!place || !statesThatGoOn(next.when).includes(state)) {
      this.#end(row, state)
      return
    }
    const { ids, stepsBefore: before } = row.missed
    const isFound = state === Row.enriched || state === Row.unchanged
    const cellsWritten = cells + (before.onlyBlanks ? before.cellsWritten : 0)
    const missed = {
      ...NOTHING_MISSED,
      ids: row.lookup === null ? ids : [...ids, row.lookup],
      stepsBefore: { onlyBlanks: before.onlyBlanks || isFound, cellsWritten },
    }
    this.#set({ ...row, place, missed, lookup: null })
  }

  readonly listWaiting = (): waiting.UnstoredRow[] =>
    this.#open.map(({ place, lookup }) => ({
      service: place.part.service,
      source: place.source.name,
      lookup,
    }))

  readonly goOn = async (isUnpaidTried = false): Promise<boolean> => {
    let hasMoved = await this.#readAnswers()
    const isPaid = ({ part }: Place): boolean => isUnpaidTried || part.budget.rowsAwaitingBudget === 0
    const isToRequest = ({ place, lookup }: SampledRow): boolean => lookup === null && isPaid(place)
    while (!this.#options.signal.aborted && (await this.#choose(this.#open.filter(isToRequest))))
      hasMoved = true
    return hasMoved
  }

  /** Shows what the answers that have come would write. @returns whether there were any */
  async #readAnswers(): Promise<boolean> {
    const startedAt = performance.now()
    if (startedAt < this.#answersAt) return false
    const awaiting = this.#open.filter(({ lookup, place }) => lookup !== null && isFit(place.source))
    if (awaiting.length === 0) return false
    const settled = await waiting.listSettled(
      this.#db,
      awaiting.flatMap(({ lookup }) => lookup ?? []),
    )
    const endedAt = performance.now()
    this.#answersAt = endedAt + (endedAt - startedAt) / READING_SHARE
    return this.#inPlaces(
      awaiting.filter(({ lookup }) => lookup !== null && settled.has(lookup)),
      PREVIEW_BATCH_SIZE,
      (place, rows) => this.#preview(place, rows),
    )
  }

  /** Does something with rows, in batches of one place. @returns whether any of them has moved */
  async #inPlaces(
    rows: readonly SampledRow[],
    size: number,
    act: (place: Place, batch: readonly SampledRow[]) => Promise<boolean>,
  ): Promise<boolean> {
    let hasMoved = false
    for (const [place, ofPlace] of Map.groupBy(rows, (row) => row.place)) {
      const { part, source } = place
      for (let n = 0; n < ofPlace.length && part.failures.length === 0; n += size) {
        if (this.#options.signal.aborted) return hasMoved
        const actFit = () => unlessBroken(part.deps, source, () => act(place, ofPlace.slice(n, n + size)))
        hasMoved = (await actInPart(part, actFit, this.#options.onFailure)) === true || hasMoved
      }
    }
    return hasMoved
  }

  async #preview({ part, source }: Place, rows: readonly SampledRow[]): Promise<boolean> {
    const byKey = new Map(rows.map((row) => [row.key, row]))
    const isFilled = (key: string, column: string): boolean => filledBefore(byKey.get(key)).includes(column)
    const { kinds, previewed } = await inTransaction(
      this.#db,
      async (tx) => {
        const answered = await waiting.readSampledAnswers(tx, source.name, rows)
        const answers = answered.map((row) => ({ ...row, stepsBefore: toStepsBefore(byKey.get(row.key)) }))
        return {
          kinds: new Map(answered.map(({ key, kind }) => [key, kind])),
          previewed: await previewWriteBack(tx, source, answers, isFilled),
        }
      },
      part.deps.policy.sourceTimeoutMs,
    )
    const results = new Map(previewed.map((preview) => [preview.row.key, preview]))
    for (const row of rows) {
      const [result, kind] = [results.get(row.key), kinds.get(row.key)]
      // Its lookup was deleted, and is to be chosen anew.
      if (result === undefined || kind === undefined) this.#set({ ...row, lookup: null })
      else this.#afterAnswer(row, kind, result)
    }
    return true
  }

  #afterAnswer(row: SampledRow, kind: LookupKind, previewed: PreviewedRow): void {
    const { source, part } = row.place
    const { state, missed, isMissing, cells } = previewed.row
    if (missed === true && row.lookup !== null) {
      const ids = [...row.missed.ids, row.lookup]
      const kinds = [...row.missed.kinds, kind]
      this.#set({ ...row, lookup: null, missed: { ...row.missed, ids, kinds } })
      // Its inputs have changed: the next run picks it.
    } else if (state === Row.waiting) this.#end(row, state)
    else {
      this.#tally.addWrite(source, part.service, previewed)
      const written = { ...row, diff: mergeDiffs(row.diff, previewed.diff) }
      if (isMissing === true) this.#end(written, state)
      else this.#settle(written, state, cells.written)
    }
  }

  /** Requests the next lookups of rows, as far as the budget pays them. @returns whether any of them has moved */
  async #choose(rows: readonly SampledRow[]): Promise<boolean> {
    const isAble = ({ place }: SampledRow): boolean => !isEnded(place.part) && isFit(place.source)
    const able = rows.filter(isAble)
    const unpaid = new Map(able.map(({ place }) => [place, 0]))
    const hasMoved = await this.#inPlaces(able, PAGE_SIZE, async (place, batch) => {
      const { skipped, isMoved } = await this.#requestNext(place, batch)
      unpaid.set(place, (unpaid.get(place) ?? 0) + skipped)
      return isMoved
    })
    for (const [{ part, source }, skipped] of unpaid) part.budget.setPendingSkips(source.name, skipped)
    return hasMoved
  }

  async #requestNext(place: Place, rows: readonly SampledRow[]) {
    const { part, source } = place
    const byKey = new Map(rows.map((row) => [row.key, row]))
    const isSame = ({ key, input_hash: hash }: PickCandidate): boolean => byKey.get(key)?.inputHash === hash
    const { candidates, page } = await inTransaction(this.#db, async (tx) => {
      const read = await withTableTimeouts(tx, part.deps.policy.sourceTimeoutMs, () =>
        readAtPlace(tx, place, rows),
      )
      const open = read.filter((candidate) => isSame(candidate) && candidate.settledUntil === null)
      return { candidates: read, page: await this.#request(tx, place, open) }
    })
    const found = new Map(candidates.map((candidate) => [candidate.key, candidate]))
    for (const row of rows) {
      const candidate = found.get(row.key)
      if (candidate !== undefined && !isSame(candidate)) this.#end(row, Row.waiting)
      else if (candidate === undefined || candidate.settledUntil !== null) this.#end(row, Row.unchanged)
    }
    this.#afterRequest(place, page)
    const isLeft = (row: SampledRow): boolean => this.#rowsOf(source).get(row.key) === row
    return {
      skipped: page.skipped.filter(({ key }) => byKey.get(key)?.lookup === null).length,
      isMoved: page.claimedLookups > 0 || !rows.every(isLeft),
    }
  }

  /** Requests what dead runs were to request, and dry runs that have ended. */
  readonly takeOver = (counts: waiting.RunWaits): Promise<boolean> =>
    this.#choose(this.#open.filter(({ place: { part } }) => counts.at(part.service).abandoned > 0))

  /** What the run would write, once it has ended: the rows that are left wait. */
  report(): Preview {
    for (const row of this.#open) this.#end(row, Row.waiting)
    return this.#tally.report([...this.#needed])
  }
}

const toStepsBefore = (row: SampledRow | undefined) => ({
  ...(row?.missed ?? NOTHING_MISSED).stepsBefore,
  foundDueAt: null,
  missedDueAt: null,
  isRemapped: false,
})

const filledBefore = (row: SampledRow | undefined): readonly string[] =>
  row?.diff?.cells.map(({ column }) => column) ?? []

/** Reads rows where they are. What services before would fill is not blank, and after a record only blank cells are lacking. */
async function readAtPlace(
  tx: Tx,
  { part, source }: Place,
  rows: readonly SampledRow[],
): Promise<PickCandidate[]> {
  const variantOf = (row: SampledRow): string =>
    JSON.stringify([row.missed.stepsBefore.onlyBlanks, ...filledBefore(row).toSorted()])
  const candidates: PickCandidate[] = []
  for (const alike of Map.groupBy(rows, variantOf).values()) {
    const missed = new Map(alike.map((row) => [row.key, row.missed]))
    const [first] = alike
    const isFound = first?.missed.stepsBefore.onlyBlanks === true
    const open = withoutOutputs((isFound && source.afterFound) || source, filledBefore(first))
    const read = await readCandidatesByKey(tx, open, [...missed.keys()], part.service)
    candidates.push(...read.map((candidate) => ({ ...candidate, missed: missed.get(candidate.key) ?? null })))
  }
  return candidates
}

function withoutOutputs(source: Source, columns: readonly string[]): Source {
  if (columns.length === 0) return source
  const left = (outputs: readonly MappedOutput[]): MappedOutput[] =>
    outputs.filter(({ column }) => !columns.includes(column))
  const { laterOutputs, allOutputs } = source
  return {
    ...source,
    outputs: left(source.outputs),
    ...(laterOutputs && { laterOutputs: left(laterOutputs) }),
    ...(allOutputs && { allOutputs: left(allOutputs) }),
  }
}

/** Empty where the table cannot be sampled: it is then read in key order. */
async function listRandomPlaces(
  { db, log, policy, random }: Pick<ServicePart['deps'], 'db' | 'log' | 'policy' | 'random'>,
  source: Source,
  count: number,
): Promise<readonly string[]> {
  try {
    return await inTransaction(db, (tx) =>
      withTableTimeouts(tx, policy.sourceTimeoutMs, () => sampleKeys(tx, source, count, random)),
    )
  } catch (error) {
    if (!(error instanceof TableBusyError) && !isNotSampled(error)) throw error
    log.debug(
      { event: 'sample_failed', source: source.name, reason: describeError(error) },
      'the table cannot be sampled',
    )
    return []
  }
}

/** TABLESAMPLE takes neither views nor foreign tables. */
const isNotSampled = (error: unknown): boolean =>
  ['42809', '0A000'].includes((error as { code?: string } | null)?.code ?? '')
