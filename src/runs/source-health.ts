import type { LeftOutSource } from '../domain/report/run.ts'
import type { Deps } from '../pipeline/deps.ts'
import { readFingerprints } from '../sources/check/privileges.ts'
import { SourceProblems, summarizeProblems, type SourceProblem } from '../sources/problems.ts'
import { resolveSteps, type BrokenSource } from '../sources/open-sources.ts'
import type { Source } from '../sources/source-model.ts'
import { isTransient } from '../store/transaction.ts'
import { readDatabaseTime } from '../store/scheduled-runs.ts'
import { listOpenConditions, reportCondition, type StoredCondition } from '../store/conditions.ts'
import { sqlStateOf } from '../util/error-text.ts'
import {
  describeCondition,
  describeEnd,
  severityOf,
  type Condition,
  type ConditionDetails,
  type ConditionKind,
} from '../domain/condition.ts'
import type { Database } from '../store/open.ts'
import type { Log } from '../util/log.ts'

type HealthDeps = Pick<Deps, 'db' | 'log'>

/** Sources that were opened, and whose tables do not fit any more, by their steps: it is broken at all of them. */
const broken = new WeakMap<Source['mapping']['steps'], readonly SourceProblem[]>()

const problemsOf = ({ mapping }: Source): readonly SourceProblem[] | undefined => broken.get(mapping.steps)

/** The sources that are broken, whether they could be opened or not. @param names none means all */
export const listLeftOut = (
  { sources, brokenSources = new Map() }: Pick<Deps, 'sources' | 'brokenSources'>,
  names: readonly string[],
): LeftOutSource[] =>
  [
    ...[...brokenSources].map(([name, { problems }]) => ({ name, problems })),
    ...[...sources.values()].map((source) => ({ name: source.name, problems: problemsOf(source) ?? [] })),
  ]
    .filter(({ name, problems }) => problems.length > 0 && (names.length === 0 || names.includes(name)))
    .map(({ name, problems }) => ({ source: name, ...summarizeProblems(problems) }))

/** Whether a run leaves a source out: it is broken, or was since the run began. */
export function isLeftOut(source: Source, leftOut: Map<string, LeftOutSource>): boolean {
  const problems = problemsOf(source)
  if (problems !== undefined)
    leftOut.set(source.name, { source: source.name, ...summarizeProblems(problems) })
  return leftOut.has(source.name)
}

export const isFit = (source: Source): boolean => problemsOf(source) === undefined

/** SQLSTATEs of a name that is gone, of a privilege that is missing, and of row-level security. */
const SOURCE_STATES = /^(42|3F000)/

/**
 * Whether a step failed because its source is broken: by the error and by what `fillrate check` finds, since a trigger of the
 * user's may raise the same errors. The source is then left out until it is mended, and a condition until then.
 */
async function noteBreakage(deps: HealthDeps, source: Source, error: unknown): Promise<boolean> {
  if (!(error instanceof SourceProblems) && !SOURCE_STATES.test(sqlStateOf(error))) return false
  return checkBreakage(deps, source).catch((failure: unknown) => {
    if (isTransient(failure)) return !isFit(source)
    throw failure
  })
}

/** Does a step for a source. @returns null if the source is broken */
export async function unlessBroken<Result>(
  deps: HealthDeps,
  source: Source,
  act: () => Promise<Result>,
): Promise<Result | null> {
  if (!isFit(source)) return null
  try {
    return await act()
  } catch (error) {
    if (await noteBreakage(deps, source, error)) return null
    throw error
  }
}

/**
 * Reads the tables of some sources for a person. Records nothing.
 * @throws SourceProblems where they do not fit, in place of what Postgres says of a missing name or privilege
 */
export async function explainBreakage<Result>(
  db: Deps['db'],
  mappings: readonly Source['mapping'][],
  read: () => Promise<Result>,
): Promise<Result> {
  try {
    return await read()
  } catch (error) {
    if (!SOURCE_STATES.test(sqlStateOf(error))) throw error
    const found = await Promise.all(mappings.map((mapping) => resolveSteps(db, mapping)))
    const problems = found.flatMap(({ problems }) => problems)
    throw problems.length > 0 ? new SourceProblems(problems, { cause: error }) : error
  }
}

/** Checks an opened source, and records whether it is broken. */
export async function checkBreakage(deps: HealthDeps, source: Source): Promise<boolean> {
  const { problems } = await resolveSteps(deps.db, source.mapping)
  if (problems.length === 0) broken.delete(source.mapping.steps)
  else broken.set(source.mapping.steps, problems)
  await reportHealth(deps, source.name, problems)
  return problems.length > 0
}

/** Reports whether a source is broken. */
async function reportHealth(
  deps: HealthDeps,
  source: string,
  problems: readonly SourceProblem[],
): Promise<void> {
  const { problem: reason, mend } = summarizeProblems(problems)
  await reportSource(deps, 'source_broken', source, problems.length === 0 ? null : { reason, mend })
}

/** The condition of a source that no process has refreshed for this long is of a source that left the configuration. */
const ABANDONED_MS = 15_000
/** How often sources are looked at. */
export const SOURCE_CHECK_MS = 4_000

/** Watches the sources of one process: which of them broke, and which were mended. */
export class SourceWatch {
  readonly #deps: HealthDeps
  readonly #sources: readonly Source[]
  /** Those that could not be opened. */
  readonly #unopened: readonly BrokenSource[]
  /** Null: they were opened a moment ago, and not checked since. */
  #prints: ReadonlyMap<string, string> | null = null

  readonly #canReopen: boolean

  /**
   * @param canReopen whether this process opens again what was mended: until then it is left out, and
   * its condition holds
   */
  constructor(
    deps: HealthDeps & Pick<Deps, 'brokenSources'>,
    sources: readonly Source[],
    canReopen: boolean,
  ) {
    this.#deps = deps
    this.#canReopen = canReopen
    this.#sources = sources
    this.#unopened = [...(deps.brokenSources?.values() ?? [])]
  }

  /**
   * The first time, records what opening the sources has shown. Then checks what is broken, and what has changed in the catalogue
   * since the last call.
   * @returns whether a source was mended: what was opened before its table changed may not fit it
   */
  async check(): Promise<boolean> {
    const { db } = this.#deps
    const open = (await listOpenConditions(db)).filter(({ kind }) => kind === 'source_broken')
    const isOpen = (name: string): boolean => open.some(({ source }) => source === name)
    if (this.#prints === null) {
      this.#prints = new Map()
      for (const source of this.#sources)
        if (isOpen(source.name)) await reportHealth(this.#deps, source.name, problemsOf(source) ?? [])
      for (const { mapping, problems } of this.#unopened)
        await reportHealth(this.#deps, mapping.name, problems)
      return false
    }
    const prints = await readFingerprints(db, this.#sources)
    let hasMended = false
    for (const source of this.#sources) {
      const { name } = source
      const hasChanged = this.#prints.get(name) !== prints.get(name)
      const wasBroken = !isFit(source)
      if (!hasChanged && !wasBroken && !isOpen(name)) continue
      if (!(await checkBreakage(this.#deps, source)) && wasBroken) hasMended = true
    }
    this.#prints = prints
    for (const { mapping } of this.#unopened) {
      const { problems } = await resolveSteps(db, mapping)
      if (problems.length > 0 || !this.#canReopen) await reportHealth(this.#deps, mapping.name, problems)
      hasMended ||= problems.length === 0
    }
    const unknown = open.filter(({ source }) => !this.#isKnown(source ?? ''))
    const now = unknown.length === 0 ? 0 : await readDatabaseTime(db)
    for (const { source, seenAt } of unknown)
      if (now - seenAt.getTime() > ABANDONED_MS) await reportHealth(this.#deps, source ?? '', [])
    return hasMended
  }

  #isKnown(name: string): boolean {
    return [...this.#unopened.map(({ mapping }) => mapping), ...this.#sources].some(
      (source) => source.name === name,
    )
  }
}

/** Logs that a condition began: what it is, what it means, and what to do. */
export function logBegin(log: Log, condition: Condition): void {
  const { kind, service, source, since, details } = condition
  const { title, meaning, mend, proof } = describeCondition(condition, Date.now())
  const level = severityOf(condition) === 'error' ? 'error' : 'warn'
  log[level](
    { event: 'condition_began', kind, service, source, since, ...details, meaning, mend, proof },
    title,
  )
}

/** Logs that a condition is over. @param ms how long it lasted, in milliseconds */
export function logEnd(log: Log, condition: Condition, ms: number): void {
  const { kind, service, source } = condition
  log.info(
    { event: 'condition_ended', kind, service, source, ms: Math.round(ms) },
    describeEnd(condition, ms),
  )
}

/** Logs conditions that have begun or ended. */
export function logChanges(log: Log, changed: readonly StoredCondition[]): void {
  for (const condition of changed)
    if (condition.endedAt === null) logBegin(log, condition)
    else logEnd(log, condition, Math.max(0, condition.endedAt.getTime() - condition.since.getTime()))
}

/**
 * Begins the condition of a source, refreshes it, or ends it, whichever process began it, and logs that.
 * @param details null: it does not hold
 */
export async function reportSource(
  { db, log }: { readonly db: Database; readonly log: Log },
  kind: ConditionKind,
  source: string,
  details: ConditionDetails | null,
): Promise<void> {
  logChanges(log, await reportCondition(db, kind, source, details))
}
