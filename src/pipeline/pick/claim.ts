import * as budgets from '../../store/budgets.ts'
import * as rows from '../../store/rows.ts'
import * as lookups from '../../store/lookups.ts'
import * as suppressions from '../../store/suppressions.ts'
import { afterSteps, Row, type RowOutcome } from '../../domain/row.ts'
import { roundCredits } from '../../domain/spend.ts'
import type { Source } from '../../sources/source-model.ts'
import { SUPPRESSED_REASON } from '../../store/erase.ts'
import { moveToNextStep } from '../../store/write-back-queue.ts'
import type { Tx } from '../../store/transaction.ts'
import type { RunBudget } from './budget.ts'
import { toRunService, type PickContext } from './pass.ts'
import type { PickCandidate } from './candidates.ts'
import { chooseLookup, type ChosenLookup, type RawInputs } from '../../domain/identifiers/choose.ts'
import { BY_KIND, hasCascade, type LookupKind } from '../../domain/identifiers/kind.ts'
import { NAME_DETAILS, type StepPlace } from '../../domain/mapping.ts'
import { identifierText } from '../../domain/subject.ts'
import type { Database } from '../../store/open.ts'
import type { LookupSpec } from '../../store/lookups.ts'

/** A candidate with the lookup that its inputs make. */
interface LookupChoice {
  readonly candidate: PickCandidate
  /** Null: no usable input; the notes have the reason. */
  readonly lookup: LookupSpec | null
  readonly notes: readonly { readonly input: string; readonly reason: string }[]
}

/**
 * Normalises a candidate's inputs and chooses the best identifier, in a cascade the best that was not tried yet. Pure.
 */
export function chooseForCandidate(source: Source, candidate: PickCandidate): LookupChoice {
  const { kind, step } = source.mapping
  const missedKinds = candidate.missed?.kinds ?? []
  const isFirst = missedKinds.length === 0
  const { lookup, notes } = isFirst
    ? chooseLookup(kind, candidate, step)
    : chooseNext(source, candidate, missedKinds)
  const all = lookup === null ? [...notes, ...noteFilledInputs(candidate.filled)] : notes
  return {
    candidate,
    lookup,
    notes: isFirst && !candidate.filled ? all : all.filter(isInformative),
  }
}

/** The best identifier that was not requested yet, with the notes of those before it. */
function chooseNext(
  source: Source,
  candidate: PickCandidate,
  missedKinds: readonly LookupKind[],
): Pick<LookupChoice, 'lookup' | 'notes'> {
  const notes: Note[] = []
  if (!hasCascade(source.mapping) || candidate.missed?.isAnswered === true) return { lookup: null, notes }
  for (const choice of listIdentifiers(source, candidate, source.mapping.step)) {
    notes.push(...choice.notes)
    const { lookup } = choice
    if (lookup === null) return { lookup, notes }
    if (!missedKinds.includes(lookup.kind)) return { lookup, notes }
  }
  throw new Error('endless list of identifiers')
}

/** Why inputs that have a value are not requested with. */
const noteFilledInputs = (filled: PickCandidate['filled']): Note[] =>
  Object.keys(filled ?? {}).map((input) => ({
    input,
    reason: 'filled by Fillrate, so nothing to look up by',
  }))

/** A candidate's usable identifiers, best first, by default with all details. The last item has no lookup, only the reasons. */
export function* listIdentifiers(
  source: Source,
  inputs: Partial<RawInputs>,
  { takes, details }: Pick<StepPlace, 'takes' | 'details'> = { takes: null, details: NAME_DETAILS },
) {
  for (let previous: LookupKind | null = null; ;) {
    const choice: ChosenLookup = chooseLookup(
      source.mapping.kind,
      inputs,
      previous === null ? { takes, details } : { after: previous, takes, details },
    )
    yield choice
    if (choice.lookup === null) return
    previous = choice.lookup.kind
  }
}

type Note = LookupChoice['notes'][number]

/** Once an identifier was requested, a blank one is not worth a note. */
const isInformative = (note: Note): boolean => note.reason !== 'no input'

/** Describes why a row has no usable input. */
export function describeUnusable(notes: LookupChoice['notes']): string {
  // Half of a name and company is none: beside an unusable address it would split one reason by what else is blank.
  const unusable = notes.filter(({ reason }) => reason !== 'no input' && reason !== 'missing')
  if (notes.length === 0) return 'no input'
  return (unusable.length > 0 ? unusable : notes)
    .map((note) => (note.reason === 'no input' ? note.reason : `${note.input}: ${note.reason}`))
    .join('; ')
}

/** Describes a miss, with the identifiers requested. */
function describeMiss(kinds: readonly LookupKind[]): string {
  if (kinds.length === 0) return 'no service found a match, and this one takes none of its inputs'
  const descriptions = kinds.map((kind) => BY_KIND[kind])
  const lastDescription = descriptions.at(-1) ?? ''
  return `the service found no match ${descriptions.length < 2 ? lastDescription : `${descriptions.slice(0, -1).join(', ')} or ${lastDescription}`}`
}

/** A value for each lookup, by kind and key. A text of both costs each row its hash, and to be joined. */
export class LookupMap<Value> {
  readonly #byKind = new Map<string, Map<string, Value>>()

  get(lookup: LookupName): Value | undefined {
    return this.#byKind.get(lookup.kind)?.get(lookup.key)
  }

  set(lookup: LookupName, value: Value): void {
    let ofKind = this.#byKind.get(lookup.kind)
    if (ofKind === undefined) this.#byKind.set(lookup.kind, (ofKind = new Map()))
    ofKind.set(lookup.key, value)
  }

  has(lookup: LookupName): boolean {
    return this.#byKind.get(lookup.kind)?.has(lookup.key) === true
  }

  get values(): Value[] {
    return [...this.#byKind.values()].flatMap((ofKind) => [...ofKind.values()])
  }
}

type LookupName = { readonly kind: string; readonly key: string }

/** The distinct ones of some lookups; of equal ones the first, whose input is sent. */
export function distinctLookups(lookups: readonly (LookupSpec | null)[]): LookupSpec[] {
  const distinct = new LookupMap<LookupSpec>()
  for (const lookup of lookups) if (lookup !== null && !distinct.has(lookup)) distinct.set(lookup, lookup)
  return distinct.values
}

/** Identifies a lookup by kind and key. */
export const lookupKey = (lookup: LookupName): string => `${lookup.kind}\n${lookup.key}`

/**
 * Finds the rows about erased persons, by index: those with any suppressed identifier, not only the one that would be
 * requested, and those that Fillrate filled itself. Locks the tombstones until the transaction ends, so that none can be added in between.
 * @param hasSuppressions whether anything was ever erased, if the caller's transaction has looked already
 */
export async function findSuppressedRows(
  db: Database | Tx,
  source: Source,
  rows: readonly (Partial<RawInputs> & { readonly filled?: PickCandidate['filled'] })[],
  hasSuppressions?: boolean,
): Promise<ReadonlySet<number>> {
  if (!(hasSuppressions ?? (await suppressions.hasSuppressions(db)))) return new Set()
  const identified = rows.flatMap((row, rowIndex) =>
    [row, ...(row.filled ? [{ ...row, ...row.filled }] : [])].flatMap((inputs) =>
      [...listIdentifiers(source, inputs)].flatMap(({ lookup }) =>
        lookup === null ? [] : [{ rowIndex, ...lookup }],
      ),
    ),
  )
  const suppressed = await suppressions.findSuppressed(db, identified)
  return new Set(
    identified.flatMap((identifier) =>
      suppressed.has(identifierText(identifier)) ? identifier.rowIndex : [],
    ),
  )
}

export interface ClaimResult {
  readonly picked: number
  /** Lookups that this run will request. */
  readonly claimedLookups: number
  /** Rows with a usable input. */
  readonly pickedWithLookup: number
  /** Rows skipped because the budget could not pay their lookup. */
  readonly skipped: readonly PickCandidate[]
  /** Candidates picked or skipped; those after them are left for the next page. */
  readonly considered: number
  /** Ended at the first row that the budget could not pay. */
  readonly isAtBudget: boolean
}

const NOTHING_CLAIMED: ClaimResult = {
  picked: 0,
  claimedLookups: 0,
  pickedWithLookup: 0,
  skipped: [],
  considered: 0,
  isAtBudget: false,
}

/** Candidates whose lookups a run has chosen and stored. */
export interface RequestedPage extends Omit<ClaimResult, 'picked'> {
  /** Those that the budget pays, as they are to be claimed. */
  readonly rows: readonly rows.PickedRow[]
  /** Keys of rows that are not requested of this service: the next one may take another identifier, or fill other cells. */
  readonly unanswered: readonly string[]
}

/** How many candidates a claim considers. */
export interface ClaimBounds {
  /** Maximum rows. */
  readonly max: number
  /** Skipped rows count towards `max`. */
  readonly countsSkipped: boolean
  /** Ends at the first row that the budget cannot pay, instead of skipping it. */
  readonly endsAtBudget: boolean
}

const UNBOUNDED: ClaimBounds = {
  max: Number.POSITIVE_INFINITY,
  countsSkipped: false,
  endsAtBudget: false,
}

/**
 * Claims candidates for a run: rows and lookups, all in this transaction. Lookups beyond the budget are
 * skipped with their rows; rows that cost nothing are claimed regardless.
 */
export async function claimCandidates(
  tx: Tx,
  source: Source,
  run: PickContext & { readonly live: readonly number[] },
  candidates: readonly PickCandidate[],
  bounds: ClaimBounds = UNBOUNDED,
): Promise<ClaimResult> {
  if (candidates.length === 0) return NOTHING_CLAIMED
  const requested = await requestLookups(tx, source, run, candidates, bounds)
  const picked = await rows.claimRows(tx, source.name, run.id, run.live, requested.rows, run.service)
  await moveToNextStep(tx, source.name, requested.unanswered, source.mapping.step)
  return { ...requested, picked: picked.length }
}

/**
 * Chooses the lookups of candidates, and stores the lookups that the budget pays. Its first statement ends the wait
 * for locks of a user's table (`OnTable`).
 */
export async function requestLookups(
  tx: Tx,
  source: Source,
  run: PickContext & { readonly live: readonly number[] },
  candidates: readonly PickCandidate[],
  bounds: ClaimBounds = UNBOUNDED,
): Promise<RequestedPage> {
  const choices = candidates.map((candidate) => chooseForCandidate(source, candidate))
  const wanted = choices.map(({ candidate, lookup }) => (lacksHere(candidate) ? lookup : null))
  const of = run.budget.isUnlimited ? null : toRunService(run)
  const { spent, hasSuppressions } = await budgets.readBeforeClaim(tx, of)
  const suppressed = await findSuppressedRows(tx, source, candidates, hasSuppressions)
  const requestable = wanted.map((lookup, n) => (suppressed.has(n) ? null : lookup))
  const distinct = distinctLookups(requestable)
  const remaining = run.budget.remaining(spent)
  const billable = await findBillable(tx, distinct, run, remaining)
  const selection = selectRows(
    requestable.map((lookup) => (lookup !== null && billable.has(lookup) ? lookupKey(lookup) : null)),
    remaining,
    bounds,
    (n) => (requestable[n] ? run.budget.charge(requestable[n]) : 0),
  )
  const withLookup = selection.taken.flatMap((n) => requestable[n] ?? [])
  const isWhole = selection.taken.length === choices.length
  const lookupsToClaim = isWhole ? distinct : distinctLookups(withLookup)
  const upserted = await lookups.upsertLookups(tx, lookupsToClaim, source.name, run.id, run.live, run.service)
  const claimed = upserted.filter((lookup) => lookup.claimed)
  const ids = new LookupMap<number>()
  for (const lookup of upserted) ids.set(lookup, lookup.id)

  const picked = selection.taken.flatMap((n) =>
    choices[n] ? [toPickedRow(choices[n], ids, suppressed.has(n))] : [],
  )
  const unanswered = selection.taken.filter(
    (n) => wanted[n] === null && choices[n]?.candidate.lacks === true && !suppressed.has(n),
  )
  return {
    rows: picked,
    unanswered: unanswered.flatMap((n) => candidates[n]?.key ?? []),
    claimedLookups: claimed.length,
    pickedWithLookup: withLookup.length,
    skipped: selection.skipped.flatMap((n) => candidates[n] ?? []),
    considered: selection.considered,
    isAtBudget: selection.isAtBudget,
  }
}

/**
 * Selects the rows that a budget pays, in their order. Pure.
 * @param costs each row's lookup, if it must be paid; null: the row costs nothing
 * @param budget credits that may still be spent
 * @param charge what the lookup of a row costs, by the index of the row
 * @returns indexes of `costs`
 */
export function selectRows(
  costs: readonly (string | null)[],
  budget: number,
  { max, countsSkipped, endsAtBudget }: ClaimBounds,
  charge: (row: number) => number = () => 1,
): {
  readonly taken: readonly number[]
  readonly skipped: readonly number[]
  readonly considered: number
  readonly isAtBudget: boolean
} {
  const taken: number[] = []
  const skipped: number[] = []
  const paid = new Set<string>()
  let left = budget
  for (const [n, cost] of costs.entries()) {
    const isFull = taken.length + (countsSkipped ? skipped.length : 0) >= max
    const isPayable = cost === null || paid.has(cost) || charge(n) <= left
    if (isFull || (!isPayable && endsAtBudget)) return { taken, skipped, considered: n, isAtBudget: !isFull }
    if (isPayable) taken.push(n)
    else skipped.push(n)
    if (!isPayable || cost === null || paid.has(cost)) continue
    paid.add(cost)
    left = roundCredits(left - charge(n))
  }
  return { taken, skipped, considered: costs.length, isAtBudget: false }
}

/** Lookups that must be paid; empty if the budget pays all of them anyway. */
async function findBillable(
  tx: Tx,
  distinct: readonly lookups.LookupSpec[],
  run: { readonly live: readonly number[]; readonly service: number; readonly budget: RunBudget },
  remaining: number,
): Promise<LookupMap<true>> {
  const cost = distinct.reduce((sum, lookup) => sum + run.budget.charge(lookup), 0)
  if (roundCredits(cost) <= remaining) return new LookupMap()
  const answers = await lookups.readStoredAnswers(tx, distinct, run.live, run.service)
  const billable = new LookupMap<true>()
  for (const [n, lookup] of distinct.entries()) if (answers[n]?.costs) billable.set(lookup, true)
  return billable
}

/** A row may lack only what services after this one fill. */
const lacksHere = ({ lacks, lacks_here: here = true }: PickCandidate): boolean => lacks && here

function toPickedRow(
  { candidate, lookup, notes }: LookupChoice,
  ids: LookupMap<number>,
  isSuppressed: boolean,
): rows.PickedRow {
  const { missed, lacks } = candidate
  const before = missed?.stepsBefore ?? null
  const picked = {
    key: candidate.key,
    inputHash: candidate.input_hash,
    settledAt: candidate.settledAt,
    notes: notes.length > 0 ? { inputs: notes } : null,
    tried: missed?.ids ?? [],
    ...(before?.onlyBlanks === true && { onlyBlanks: true }),
  }
  const finished = (state: RowOutcome['state'], why: string): rows.PickedRow => ({
    ...picked,
    ...(before === null ? { state, reason: why } : afterSteps({ state, reason: why }, before)),
    lookup: null,
    ...(before !== null && { nextAt: missed?.dueAt ?? null }),
  })
  if (!lacks || !lacksHere(candidate)) return finished(Row.unchanged, 'nothing left to fill')
  if (isSuppressed) return { ...finished(Row.suppressed, SUPPRESSED_REASON), tried: [], nextAt: null }
  if (lookup === null && picked.tried.length > 0)
    return { ...finished(Row.notFound, describeMiss(missed?.kinds ?? [])), nextAt: missed?.dueAt ?? null }
  if (lookup === null) return finished(Row.invalidInput, describeUnusable(notes))
  return { ...picked, state: Row.waiting, reason: null, lookup: ids.get(lookup) ?? null }
}
