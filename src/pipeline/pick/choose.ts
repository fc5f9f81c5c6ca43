import { chooseLookup, type ChosenLookup, type RawInputs } from '../../domain/identifiers/choose.ts'
import { BY_KIND, hasCascade, type LookupKind } from '../../domain/identifiers/kind.ts'
import { NAME_DETAILS, type ServiceTurn } from '../../domain/mapping.ts'
import { identifierText } from '../../domain/subject.ts'
import type { Source } from '../../sources/source-model.ts'
import type { Database } from '../../store/open.ts'
import * as suppressions from '../../store/suppressions.ts'
import type { Tx } from '../../store/transaction.ts'
import type { LookupSpec } from '../../store/lookups.ts'
import type { PickCandidate } from './candidates.ts'

/** A candidate with the lookup that its inputs make. */
export interface LookupChoice {
  readonly candidate: PickCandidate
  /** Null: no usable input; the notes have the reason. */
  readonly lookup: LookupSpec | null
  readonly notes: readonly { readonly input: string; readonly reason: string }[]
}

/**
 * Normalises a candidate's inputs and chooses the best identifier, in a cascade the best that was not tried yet. Pure.
 */
export function chooseForCandidate(source: Source, candidate: PickCandidate): LookupChoice {
  const { kind, turn } = source.mapping
  const missedKinds = candidate.missed?.kinds ?? []
  const isFirst = missedKinds.length === 0
  const { lookup, notes } = isFirst
    ? chooseLookup(kind, candidate, turn)
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
  for (const choice of listIdentifiers(source, candidate, source.mapping.turn)) {
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
  { takes, details }: Pick<ServiceTurn, 'takes' | 'details'> = { takes: null, details: NAME_DETAILS },
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
export function describeMiss(kinds: readonly LookupKind[]): string {
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
  return new Set(identified.flatMap((one) => (suppressed.has(identifierText(one)) ? one.rowIndex : [])))
}
