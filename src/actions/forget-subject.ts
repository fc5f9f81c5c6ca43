import { endpointOf } from '../domain/identifiers/kind.ts'
import { listNameKeys } from '../domain/identifiers/name-company.ts'
import { findSubject, type Identifier, identifierText } from '../domain/subject.ts'
import { NO_TEXT } from '../pipeline/erasure.ts'
import * as erase from '../store/erase.ts'
import { listResultIdentifiers, type RunPart } from './erase-deliveries.ts'
import { type ForgetTarget, toForgetTarget } from './forget-target.ts'

/** A person or a company, as far as it is stored: all that the named identifiers lead to, at every service and in every source. */
export interface Subject {
  /** The named identifiers, and those that are linked to them. */
  readonly targets: readonly ForgetTarget[]
  /** Matches each of them. */
  readonly pattern: string
  readonly isCompany: boolean
  readonly ids: readonly number[]
  readonly rows: readonly erase.RowName[]
  /** Those of the lookups that are of other identifiers than the named ones, and how many identifiers these are. */
  readonly linked: { readonly lookups: number; readonly identifiers: number }
}

/**
 * Expands a subject by kind and key until nothing new is found: lookups of its identifiers at all services, the rows that used
 * them, the other lookups of these rows, and what records and results give as their own identifiers. A source that left the configuration
 * counts as any other: its rows are stored.
 * @param findRows finds the rows of the user's tables whose present inputs have an identifier
 */
export async function expandSubject(
  runPart: RunPart,
  named: readonly ForgetTarget[],
  findRows: (targets: readonly ForgetTarget[]) => Promise<readonly erase.RowName[]>,
): Promise<Subject> {
  const isCompany = named.every(({ kind }) => kind === 'domain')
  const targets: ForgetTarget[] = []
  const identifiers = new Map<string, Identifier>()
  const rows = new Map<string, erase.RowName>()
  const lookups = new Map<number, erase.LinkedLookup>()
  let namedIds: ReadonlySet<number> | null = null
  const addIdentifiers = (found: readonly Identifier[]): void => {
    for (const one of found) identifiers.set(identifierText(one), one)
  }
  const addRows = (found: readonly erase.RowName[]): void => {
    for (const row of found) rows.set(`${row.source}\n${row.key}`, row)
  }
  for (let fresh = named; fresh.length > 0;) {
    targets.push(...fresh)
    addIdentifiers(fresh)
    addRows(await findRows(fresh))
    let ids = await findNaming(runPart, fresh, isCompany)
    namedIds ??= new Set(ids)
    if (!isCompany) addIdentifiers(await listResultIdentifiers(runPart, fresh, joinPatterns(fresh)))
    for (let size = -1; size !== lookups.size + rows.size + identifiers.size;) {
      size = lookups.size + rows.size + identifiers.size
      const known = { ids, known: [...lookups.keys()] }
      const linked = await runPart((tx) =>
        erase.findLinked(tx, { ...known, rows: [...rows.values()], identifiers: [...identifiers.values()] }),
      )
      addRows(linked.rows)
      for (const { id, kind, key, record } of linked.lookups) {
        lookups.set(id, { id, kind, key })
        const forms = kind === 'name_company' ? listNameKeys(key) : [key]
        addIdentifiers(forms.map((form) => ({ kind, key: form })))
        addIdentifiers(findSubject(endpointOf(kind), record))
      }
      ids = [...lookups.keys()]
    }
    const searched = new Set(targets.map(identifierText))
    fresh = [...identifiers].flatMap(([text, one]) => (searched.has(text) ? [] : toForgetTarget(one)))
  }
  const linked = [...lookups.values()].filter(({ id }) => namedIds?.has(id) !== true)
  return {
    targets,
    pattern: joinPatterns(targets),
    isCompany,
    ids: [...lookups.keys()],
    rows: [...rows.values()],
    linked: { lookups: linked.length, identifiers: new Set(linked.map(identifierText)).size },
  }
}

const joinPatterns = (targets: readonly ForgetTarget[]): string =>
  targets.map(({ pattern }) => pattern).join('|')

/** Finds the lookups of identifiers, and those whose record is about one of them. */
async function findNaming(
  runPart: RunPart,
  targets: readonly ForgetTarget[],
  isCompany: boolean,
): Promise<number[]> {
  const keys = new Set(targets.map(identifierText))
  const pattern = joinPatterns(targets)
  const found: number[] = []
  for (let after: number | null = 0; after !== null;) {
    const from: number = after
    const page = await runPart((tx) =>
      erase.findLookups(tx, targets, { inputs: isCompany ? NO_TEXT : pattern, pattern, after: from }),
    )
    for (const { id, kind, isRequested, record } of page.lookups)
      if (isRequested || findSubject(endpointOf(kind), record).some((one) => keys.has(identifierText(one))))
        found.push(id)
    after = page.next
  }
  return found
}
