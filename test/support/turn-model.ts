import type { WritePolicy } from '../../src/domain/mapping.ts'
import { createRng } from '../../src/sandbox/rng.ts'
import { POLICY_MODEL } from './policy-model.ts'
import {
  type Column,
  COLUMNS,
  type ModelCase,
  ROWS,
  type ServiceName,
  takesProfile,
  type WorldSettings,
} from './turn-cases.ts'

/** How a service answers the n-th lookup of a person. */
export type Answer =
  | { readonly outcome: 'not_found' | 'rejected' }
  | {
      readonly outcome: 'found'
      readonly confidence: number
      readonly record: Readonly<Partial<Record<Column, string>>>
    }

export function answerOf(seed: number, service: ServiceName, key: string, nth: number): Answer {
  const draw = createRng(seed, `${service} ${key} ${nth}`)
  const kind = draw.next()
  if (kind < 0.4) return { outcome: 'not_found' }
  if (kind < 0.45) return { outcome: 'rejected' }
  const known = COLUMNS.filter(() => draw.below(0.6))
  return {
    outcome: 'found',
    confidence: draw.pick([0.3, 0.6, 0.9]),
    record: Object.fromEntries(known.map((column) => [column, `${service} ${column} ${key} ${nth}`])),
  }
}

type Cells = Record<Column, string | null>

interface StoredLookup {
  readonly answer: Answer
  /** Null: never again. */
  readonly dueDay: number | null
}

interface KnownRow {
  readonly inputs: string
  readonly dueDay: number | null
  readonly written: Values
  /** What was written for earlier inputs. */
  readonly earlier: Values
}

type Values = Readonly<Partial<Record<Column, string>>>

export interface ModelRow {
  email: string | null
  profile: string | null
  readonly cells: Cells
  known: KnownRow | null
}

const isBlank = (cells: Cells, column: Column): boolean => cells[column] === null

const isHeld = (cells: Cells, earlier: Values, column: Column): boolean =>
  earlier[column] !== undefined && cells[column] === earlier[column]

/** Two of the values, or the only one: one of several may be the same by chance. */
function isTakenOver(cells: Cells, earlier: Values): boolean {
  const known = COLUMNS.filter((column) => earlier[column] !== undefined)
  return known.filter((column) => isHeld(cells, earlier, column)).length >= Math.min(2, known.length)
}

/** The policy of a column at a turn: of one that the service does not fill, that of the first that does. */
function policyOf({ outputs, turns }: WorldSettings, turn: number, column: Column): WritePolicy {
  const byTurn = [turns[turn], ...turns].flatMap((one) => (one && outputs[column][one.name]) ?? [])
  return byTurn[0]?.policy ?? 'always'
}

/** Whether a record has this value for a column, as the source takes it. */
function answerHas(
  { outputs, turns }: WorldSettings,
  turn: number,
  answer: Extract<Answer, { outcome: 'found' }>,
  column: Column,
  value: string | null,
): boolean {
  const own = outputs[column][turns[turn]?.name ?? 'a']
  return own !== null && answer.confidence >= own.minConfidence && answer.record[own.field] === value
}

/** The state of all worlds, by an independent reading of what several services in turn mean. */
export class TurnModel {
  readonly #case: ModelCase
  readonly worlds: readonly { readonly settings: WorldSettings; readonly rows: ModelRow[] }[]
  readonly #stored = new Map<string, StoredLookup>()
  readonly #asked = new Map<string, number>()
  #day = 0

  constructor(settings: ModelCase) {
    this.#case = settings
    this.worlds = settings.worlds.map((world, w) => ({
      settings: world,
      rows: world.rows.map(({ hasEmail, hasProfile, typed }, r) => ({
        // The last row shares the address of the one before.
        email: hasEmail ? addressOf(w, Math.min(r, ROWS - 2)) : null,
        profile: hasProfile ? `https://www.linkedin.com/in/w${w}r${r}` : null,
        cells: {
          title: typed.includes('title') ? 'typed' : null,
          phone: typed.includes('phone') ? 'typed' : null,
          seniority: typed.includes('seniority') ? 'typed' : null,
        },
        known: null,
      })),
    }))
  }

  /** What users do before a pass. */
  edit(pass: number): void {
    this.#day += this.#case.days[pass] ?? 0
    for (const [w, { settings, rows }] of this.worlds.entries())
      for (const [r, row] of rows.entries()) {
        const { edit, column } = settings.edits[pass]?.[r] ?? { edit: 'none', column: 'title' }
        if (edit === 'type') row.cells[column] = `typed before pass ${pass}`
        if (edit === 'blank') row.cells[column] = null
        if (edit === 'blank all' || edit === 'new person') for (const one of COLUMNS) row.cells[one] = null
        if (edit === 'new person' || edit === 'new address') row.email = addressOf(w, r, pass)
      }
  }

  /** Makes a pass over all rows. @returns each call, as service and key, in order */
  pass(): string[] {
    const calls: string[] = []
    for (const { settings, rows } of this.worlds) for (const row of rows) this.#passRow(settings, row, calls)
    return calls.sort()
  }

  #passRow(settings: WorldSettings, row: ModelRow, calls: string[]): void {
    const inputs = JSON.stringify([row.email, row.profile])
    const isSame = row.known?.inputs === inputs
    const isDue = row.known?.dueDay != null && row.known.dueDay <= this.#day
    if (row.known !== null && isSame && !isDue) return
    const written = { ...(isSame ? row.known?.written : {}) }
    const earlier = { ...row.known?.earlier, ...(isSame ? {} : row.known?.written) }
    /** What was written for earlier inputs counts as blank, in a row that is still the one that it was written to. */
    const isEarlier = (column: Column, policy: WritePolicy): boolean =>
      POLICY_MODEL[policy].takesEarlier &&
      isHeld(row.cells, earlier, column) &&
      isTakenOver(row.cells, earlier)
    const isWritable = (column: Column, policy: WritePolicy): boolean =>
      isBlank(row.cells, column) ||
      POLICY_MODEL[policy].replaces === 'all' ||
      isEarlier(column, policy) ||
      (POLICY_MODEL[policy].replaces === 'own' &&
        written[column] !== undefined &&
        written[column] === row.cells[column])
    /** Behind a record: what is blank, and what this service alone fills, has filled and keeps up to date. */
    const afterRecord =
      (turn: number): MayWrite =>
      (column, policy) =>
        isBlank(row.cells, column) ||
        isEarlier(column, 'blank') ||
        (POLICY_MODEL[policy].replaces === 'own' &&
          written[column] !== undefined &&
          written[column] === row.cells[column] &&
          settings.turns.slice(0, turn).every(({ name }) => settings.outputs[column][name] === null))
    /** What this service fills behind a record of another counts as blank, whatever its policy. */
    const holdsEarlier = (turn: number, onlyBlanks: boolean): boolean =>
      COLUMNS.some((column) => {
        const isFilled = settings.outputs[column][settings.turns[turn]?.name ?? 'a'] !== null
        return isEarlier(column, onlyBlanks && isFilled ? 'blank' : policyOf(settings, turn, column))
      })
    if (!lacks(settings, 0, isWritable, afterRecord) && !holdsEarlier(0, false)) return

    let onlyBlanks = false
    let state: string = ''
    let foundDue = Number.POSITIVE_INFINITY
    let missDue = Number.POSITIVE_INFINITY
    for (const [turn, { name, minConfidence }] of settings.turns.entries()) {
      const may = onlyBlanks ? afterRecord(turn) : isWritable
      const holds = holdsEarlier(turn, onlyBlanks)
      if (!lacks(settings, turn, may, afterRecord) && !holds) break
      if (!lacksHere(settings, turn, may) && !holds) state = 'unchanged'
      else {
        const { answer, dueDay, missedUntil } = this.#lookUp(settings, name, row, calls)
        if (answer === null) state = 'invalid_input'
        else if (answer.outcome !== 'found') state = answer.outcome
        else if (answer.confidence < minConfidence) state = 'below_confidence'
        else {
          const isAnothers = !isTakenOver(row.cells, earlier)
          const lost = COLUMNS.filter((column) => isEarlier(column, policyOf(settings, turn, column)))
          const filled = this.#fill(settings, name, row, answer, may)
          Object.assign(written, filled)
          // The first record for the new inputs ends what was written for others.
          const blanked = lost.filter((column) => filled[column] === undefined)
          for (const column of blanked) {
            if (answerHas(settings, turn, answer, column, row.cells[column]))
              written[column] = row.cells[column] ?? ''
            else row.cells[column] = null
          }
          // In another row, what is left is a user's, equal by chance: from its first write on it counts no more.
          const ended =
            isAnothers && Object.keys(filled).length > 0 ? COLUMNS : [...lost, ...Object.keys(filled)]
          for (const column of ended) delete earlier[column as Column]
          state = Object.keys(filled).length + blanked.length > 0 ? 'enriched' : 'unchanged'
        }
        if (answer?.outcome === 'found') foundDue = Math.min(foundDue, dueDay ?? foundDue)
        else missDue = Math.min(missDue, missedUntil ?? missDue)
      }
      const isFound = state === 'enriched' || state === 'unchanged'
      onlyBlanks ||= isFound
      const next = settings.turns[turn + 1]
      // What one has found is no miss any more, whoever comes next.
      if (next?.when === 'miss' && onlyBlanks) break
    }
    const due = Number.isFinite(foundDue) ? foundDue : missDue
    row.known = { inputs, written, earlier, dueDay: Number.isFinite(due) ? due : null }
  }

  #fill(
    { outputs }: WorldSettings,
    name: ServiceName,
    row: ModelRow,
    answer: Extract<Answer, { outcome: 'found' }>,
    may: (column: Column, policy: WritePolicy) => boolean,
  ): Partial<Record<Column, string>> {
    const filled: Partial<Record<Column, string>> = {}
    for (const column of COLUMNS) {
      const one = outputs[column][name]
      const value = one === null ? undefined : answer.record[one.field]
      if (one === null || value === undefined || answer.confidence < one.minConfidence) continue
      if (may(column, one.policy) && row.cells[column] !== value) filled[column] = value
    }
    for (const column of COLUMNS) row.cells[column] = filled[column] ?? row.cells[column]
    return filled
  }

  /** The answer of a service: by the address, and in a cascade by the profile if that finds nothing. */
  #lookUp(
    { cascade }: WorldSettings,
    service: ServiceName,
    { email, profile }: ModelRow,
    calls: string[],
  ): { readonly answer: Answer | null; readonly dueDay: number | null; readonly missedUntil: number | null } {
    const keys = [email, takesProfile(service) ? profile : null].flatMap((key) => key ?? [])
    let last: StoredLookup | null = null
    let missedUntil = Number.POSITIVE_INFINITY
    for (const key of cascade ? keys : keys.slice(0, 1)) {
      last = this.#ask(service, toKey(key), calls)
      if (last.answer.outcome !== 'found') missedUntil = Math.min(missedUntil, last.dueDay ?? missedUntil)
      if (last.answer.outcome !== 'not_found') break
    }
    return {
      ...(last ?? { answer: null, dueDay: null }),
      missedUntil: Number.isFinite(missedUntil) ? missedUntil : null,
    }
  }

  #ask(service: ServiceName, key: string, calls: string[]): StoredLookup {
    const name = `${service} ${key}`
    const stored = this.#stored.get(name)
    if (stored !== undefined && (stored.dueDay === null || stored.dueDay > this.#day)) return stored
    const nth = this.#asked.get(name) ?? 0
    this.#asked.set(name, nth + 1)
    calls.push(name)
    const answer = answerOf(this.#case.seed, service, key, nth)
    const { refresh, retry } = this.#case.ages[service]
    const days = { found: refresh, not_found: retry, rejected: null }[answer.outcome]
    const lookup = { answer, dueDay: days === null ? null : this.#day + days }
    this.#stored.set(name, lookup)
    return lookup
  }
}

const addressOf = (world: number, row: number, pass = 0): string => `w${world}r${row}p${pass}@x.example`

/** What a lookup is called by here: an address, or the end of a profile's URL. */
export const toKey = (identifier: string): string => identifier.replace(/^.*\/in\//, 'in/')

type MayWrite = (column: Column, policy: WritePolicy) => boolean

const lacksHere = ({ outputs, turns }: WorldSettings, turn: number, may: MayWrite): boolean =>
  COLUMNS.some((column) => {
    const one = outputs[column][turns[turn]?.name ?? 'a']
    return one !== null && may(column, one.policy)
  })

/** Whether a service may fill a cell, or one after it behind a record. */
function lacks(
  settings: WorldSettings,
  turn: number,
  may: MayWrite,
  afterRecord: (turn: number) => MayWrite,
): boolean {
  if (lacksHere(settings, turn, may)) return true
  if (settings.turns[turn + 1]?.when !== 'blank') return false
  return lacks(settings, turn + 1, afterRecord(turn + 1), afterRecord)
}
