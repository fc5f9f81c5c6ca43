import { endpointOf } from '../domain/identifiers/kind.ts'
import { listNameKeys } from '../domain/identifiers/name-company.ts'
import {
  ERASED_TEXT,
  findSubject,
  type Identifier,
  identifierText,
  redactStrings,
} from '../domain/subject.ts'
import { findResultSubjects, NO_TEXT, redactResults, type RedactedResult } from '../pipeline/erasure.ts'
import { lockCandidateJobs } from '../pipeline/match-delivery.ts'
import { redactDeliveries } from '../store/deliveries.ts'
import * as erase from '../store/erase.ts'
import type { Tx } from '../store/transaction.ts'
import { type ForgetTarget, toForgetTarget } from './forget-target.ts'

/** Runs one part of the erasure, with all its SQL in one transaction. */
export type RunPart = <T>(act: (tx: Tx) => Promise<T>) => Promise<T>

/** A person or a company as it is stored: all that the named identifiers lead to, at every service. */
export interface Subject {
  /** The named identifiers, and those that are linked to them. */
  readonly targets: readonly ForgetTarget[]
  /** Matches each of them. */
  readonly pattern: string
  readonly isCompany: boolean
  readonly ids: readonly number[]
  readonly rows: readonly erase.RowName[]
  /** Lookups of other identifiers than the named ones, and how many identifiers these are. */
  readonly linked: { readonly lookups: number; readonly identifiers: number }
}

/**
 * Expands a subject by kind and key until nothing new is found: lookups of its identifiers at all services,
 * the rows that used them, the other lookups of these rows, and what their records give as their own
 * identifiers. What only a delivery says is no link: nothing has confirmed it. A source that left the
 * configuration counts as any other: its rows are stored.
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
    const isSearched = createTargetTest(targets)
    fresh = [...identifiers.values()].filter((one) => !isSearched(one)).map(toForgetTarget)
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
  const isTarget = createTargetTest(targets)
  const pattern = joinPatterns(targets)
  const found: number[] = []
  for (let after: number | null = 0; after !== null;) {
    const from: number = after
    const page = await runPart((tx) =>
      erase.findLookups(tx, targets, { inputs: isCompany ? NO_TEXT : pattern, pattern, after: from }),
    )
    for (const { id, kind, isRequested, record } of page.lookups)
      if (isRequested || findSubject(endpointOf(kind), record).some(isTarget)) found.push(id)
    after = page.next
  }
  return found
}

const ERASED_BODY = JSON.stringify({ erased: 'unparseable, and contained the erased identifier' })

/** Deliveries that are locked in one transaction. */
const DELIVERIES_PER_TRANSACTION = 20

const createTargetTest = (targets: readonly Identifier[]): ((identifier: Identifier) => boolean) => {
  const keys = new Set(targets.map(identifierText))
  return (identifier) => keys.has(identifierText(identifier))
}

/**
 * Removes the results about the subject from deliveries, and mentions of it from the other results. What
 * cannot be read, and is of a job of the subject or holds an identifier, is replaced whole.
 */
export async function eraseInDeliveries(
  runPart: RunPart,
  subject: Subject,
): Promise<{ results: number; bodies: number; mentions: number }> {
  // In a person's result, a company's domain is that of the employer.
  const pattern = subject.isCompany ? NO_TEXT : subject.pattern
  const found = await runPart(async (tx) =>
    erase.findDeliveries(tx, await erase.findJobsOfLookups(tx, subject.ids), pattern),
  )
  const total = { results: 0, bodies: 0, mentions: 0 }
  for (let n = 0; n < found.length; n += DELIVERIES_PER_TRANSACTION) {
    const batch = found.slice(n, n + DELIVERIES_PER_TRANSACTION)
    const counts = await runPart((tx) => eraseInBatch(tx, batch, subject, new RegExp(pattern, 'giu')))
    for (const name of ['results', 'bodies', 'mentions'] as const) total[name] += counts[name]
  }
  return total
}

async function eraseInBatch(tx: Tx, batch: readonly string[], { ids, targets }: Subject, named: RegExp) {
  const deliveries = await erase.lockDeliveries(tx, batch)
  const bodies = deliveries.flatMap((one) => (one.body === null ? [] : [{ ...one, body: one.body }]))
  const isTarget = createTargetTest(targets)
  const results = findResultSubjects(bodies, await lockCandidateJobs(tx, deliveries))
  const redacted = results.flatMap((result): RedactedResult[] => {
    const isSubject =
      [result.member, ...result.mayBe].some((one) => one !== null && ids.includes(one.id)) ||
      result.identifiers.some(isTarget)
    if (isSubject) return [{ ...result, redacted: null }]
    if (JSON.stringify(result.raw).search(named) === -1) return []
    return [{ ...result, redacted: redactStrings(result.raw, (text) => redactText(text, named)) }]
  })
  await redactResults(tx, bodies, redacted)
  const unreadable = deliveries.filter(({ body }) => body === null)
  await redactDeliveries(
    tx,
    unreadable.map(({ id }) => ({ id, body: ERASED_BODY })),
  )
  const removed = redacted.filter((one) => one.redacted === null).length
  return { results: removed, bodies: unreadable.length, mentions: redacted.length - removed }
}

/** A value that is the identifier becomes null: a cell may be filled with it. */
const redactText = (text: string, named: RegExp): string | null => {
  const rest = text.replaceAll(named, ERASED_TEXT)
  return rest !== text && !/\s/.test(text.trim()) ? null : rest
}
