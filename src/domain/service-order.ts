/** Rows of a source that all services have answered alike, with the cells of them that were filled. */
export interface AnsweredRows {
  readonly rows: number
  /** By service: whether it has found them. Null: it has not answered. `passed`: they have no input that it takes, so it never will. */
  readonly answers: readonly (boolean | 'passed' | null)[]
  /**
   * Their filled cells together, by the services whose records have a value for them: bit n is the nth service, which has found the
   * rows. Each of the rows has cells of every such set.
   */
  readonly cells: ReadonlyMap<number, number>
}

/** A service in an order of services. */
export interface OrderedService {
  /** Among the answers. */
  readonly index: number
  /** When a row reaches it that the one before has found: never, or while a cell is blank. */
  readonly when: 'miss' | 'blank'
}

/** What a row costs that is requested of a service, by the answer. */
export interface RowCost {
  readonly found: number
  readonly missed: number
}

/** A number that is known (`low` is `high`), or lies between two bounds. `likely`: an estimate; null: nothing stored allows one. */
export interface Range {
  readonly low: number
  readonly high: number
  readonly likely: number | null
}

const STEP_FIGURES = ['requested', 'found', 'cells', 'cost'] as const
const TOTAL_FIGURES = ['found', 'cells', 'cost'] as const

/** What an order of services would have requested, found, filled and paid. */
export interface OrderForecast {
  /** `cells`: those that this service fills, and none before it. */
  readonly steps: readonly (OrderedService & Readonly<Record<(typeof STEP_FIGURES)[number], Range>>)[]
  readonly total: Readonly<Record<(typeof TOTAL_FIGURES)[number], Range>>
  /** Rows of which an answer that the order needs is not stored. */
  readonly estimatedRows: number
  /** Of these, rows of which no row with the same other answers has the missing one. */
  readonly blindRows: number
}

/** The figures of a row: four for each step, then those in all. */
type Figures = readonly number[]
interface Bounds {
  readonly low: Figures
  readonly high: Figures
}

/**
 * Plays an order of services on stored answers. Where the order needs an answer that is not stored, the rows count as those with the
 * same other answers that have it. The bounds then include the sampling error of that share (95%); without such rows, anything
 * from none to all.
 * @param columns how many cells of a row can be filled
 */
export function playOrder(
  groups: readonly AnsweredRows[],
  order: readonly OrderedService[],
  costs: readonly RowCost[],
  columns: number,
): OrderForecast {
  const play = new OrderPlay(groups, order, costs, columns)
  const width = order.length * STEP_FIGURES.length + TOTAL_FIGURES.length
  const sums = [0, 1, 2].map(() => Array.from({ length: width }, () => 0))
  const [low = [], high = [], likely = []] = sums
  let estimatedRows = 0
  let blindRows = 0
  for (const group of groups) {
    const bounds = play.boundsOf(group)
    const estimate = play.estimate(group, 0, 0)
    for (let n = 0; n < width; n++) {
      low[n] = (low[n] ?? 0) + group.rows * (bounds.low[n] ?? 0)
      high[n] = (high[n] ?? 0) + group.rows * (bounds.high[n] ?? 0)
      likely[n] = (likely[n] ?? 0) + group.rows * (estimate?.[n] ?? 0)
    }
    if (play.needsMissingAnswer(group, 0, 0)) estimatedRows += group.rows
    if (estimate === null) blindRows += group.rows
  }
  const range = (n: number): Range => {
    const [from, to] = [tidy(low[n] ?? 0), tidy(high[n] ?? 0)]
    // An estimate also takes the answers of comparable rows to other services, which the bounds leave open: it may be a little beyond.
    if (from === to) return { low: from, high: to, likely: from }
    return {
      low: from,
      high: to,
      likely: blindRows > 0 ? null : Math.min(to, Math.max(from, tidy(likely[n] ?? 0))),
    }
  }
  const figures = <Name extends string>(names: readonly Name[], at: number): Record<Name, Range> =>
    Object.fromEntries(names.map((name, n) => [name, range(at + n)])) as Record<Name, Range>
  return {
    steps: order.map((service, k) => ({ ...service, ...figures(STEP_FIGURES, k * STEP_FIGURES.length) })),
    total: figures(TOTAL_FIGURES, order.length * STEP_FIGURES.length),
    estimatedRows,
    blindRows,
  }
}

/** Sums of binary fractions: 3 × 0.1 is not 0.3. */
const tidy = (sum: number): number => Math.round(sum * 1e6) / 1e6

class OrderPlay {
  readonly #groups: readonly AnsweredRows[]
  readonly #order: readonly OrderedService[]
  readonly #costs: readonly RowCost[]
  readonly #columns: number
  readonly #alike = new Map<string, readonly AnsweredRows[]>()
  readonly #nothing: Figures

  constructor(
    groups: readonly AnsweredRows[],
    order: readonly OrderedService[],
    costs: readonly RowCost[],
    columns: number,
  ) {
    this.#groups = groups
    this.#order = order
    this.#costs = costs
    this.#columns = columns
    this.#nothing = Array.from({ length: order.length * STEP_FIGURES.length + TOTAL_FIGURES.length }, () => 0)
  }

  /**
   * What a row of the group comes to from step `k` on. A missing answer is taken from rows with the same other answers, with all that
   * they are. Null: there is no such row.
   * @param before the services that have found it, as a set
   */
  estimate(group: AnsweredRows, k: number, before: number): Figures | null {
    const service = this.#order[k]
    if (service === undefined || !this.#goesOn(group, service, before)) return this.#nothing
    const answer = group.answers[service.index] ?? null
    if (answer === 'passed') return this.estimate(group, k + 1, before)
    if (answer === null) {
      const alike = this.#rowsLike(group.answers, service.index)
      const all = countRows(alike)
      return alike.reduce<Figures | null>(
        (sum, one) => {
          const part = this.estimate(one, k, before)
          return sum === null || part === null ? null : addTo(sum, part, one.rows / all)
        },
        all === 0 ? null : this.#nothing,
      )
    }
    const rest = this.estimate(group, k + 1, answer ? before | (1 << service.index) : before)
    const cells = answer ? cellsOf(group, service.index, before) : 0
    return rest && addTo(rest, this.#step(k, answer, before, cells))
  }

  /** Whether the order needs an answer that is not stored. */
  needsMissingAnswer(group: AnsweredRows, k: number, before: number): boolean {
    const service = this.#order[k]
    if (service === undefined || !this.#goesOn(group, service, before)) return false
    const answer = group.answers[service.index] ?? null
    if (answer === null) return true
    return this.needsMissingAnswer(group, k + 1, answer === true ? before | (1 << service.index) : before)
  }

  boundsOf(group: AnsweredRows): Bounds {
    const { low, high } = this.#bounds(group, group.answers, 0, { known: 0, assumed: 0 })
    // A cell that one of them can fill is filled by the end, where rows go on while one is blank: by it, or by another before it.
    const cells = this.#nothing.length - TOTAL_FIGURES.length + TOTAL_FIGURES.indexOf('cells')
    const isForBlanks = this.#order.every(({ when }, k) => k === 0 || when === 'blank')
    const services = this.#order.reduce((set, { index }) => set | (1 << index), 0)
    const fillable = isForBlanks ? sumCells(group, (set) => (set & services) !== 0) : 0
    return {
      low: low.with(cells, Math.max(low[cells] ?? 0, fillable)),
      high: high.with(cells, Math.max(fillable, Math.min(high[cells] ?? 0, this.#columns))),
    }
  }

  /** @param answers those of the group, and assumed ones where it has none */
  #bounds(
    group: AnsweredRows,
    answers: AnsweredRows['answers'],
    k: number,
    before: { readonly known: number; readonly assumed: number },
  ): Bounds {
    const service = this.#order[k]
    const nothing = { low: this.#nothing, high: this.#nothing }
    const all = before.known | before.assumed
    if (service === undefined || (all !== 0 && service.when === 'miss')) return nothing
    // What an assumed record leaves blank is not known, and of a record without a cell to fill neither whether others are blank.
    if (answers[service.index] === 'passed') return this.#bounds(group, answers, k + 1, before)
    const isSure = all === 0 || (before.assumed === 0 && hasCellBeyond(group, before.known))
    const requested = this.#boundsOfRequest(group, answers, k, before)
    return isSure ? requested : hullOf(nothing, requested)
  }

  #boundsOfRequest(
    group: AnsweredRows,
    answers: AnsweredRows['answers'],
    k: number,
    before: { readonly known: number; readonly assumed: number },
  ): Bounds {
    const index = this.#order[k]?.index ?? 0
    const set = 1 << index
    const all = before.known | before.assumed
    const answer = answers[index] ?? null
    const withStep = (rest: Bounds, found: boolean, cells: readonly [low: number, high: number]): Bounds => ({
      low: addTo(rest.low, this.#step(k, found, all, cells[0])),
      high: addTo(rest.high, this.#step(k, found, all, cells[1])),
    })
    if (answer === false) return withStep(this.#bounds(group, answers, k + 1, before), false, [0, 0])
    if (answer === true) {
      const cells = cellsOf(group, index, before.known)
      const rest = this.#bounds(group, answers, k + 1, { ...before, known: before.known | set })
      return withStep(rest, true, [before.assumed === 0 ? cells : 0, cells])
    }
    const alike = this.#rowsLike(answers, index)
    const hits = alike.filter((one) => one.answers[index] === true)
    const share = shareBounds(countRows(hits), countRows(alike))
    const filled = hits.reduce((sum, one) => sum + one.rows * cellsOf(one, index, all), 0)
    const filledShare = shareBounds(filled / Math.max(1, this.#columns), countRows(hits))
    const assumed = { ...before, assumed: before.assumed | set }
    const hit = withStep(this.#bounds(group, answers.with(index, true), k + 1, assumed), true, [
      filledShare[0] * this.#columns,
      filledShare[1] * this.#columns,
    ])
    const miss = withStep(this.#bounds(group, answers.with(index, false), k + 1, before), false, [0, 0])
    return mixOf(share, hit, miss)
  }

  /** Whether a row that others have found reaches a service. Without a cell that it could fill, what happened is what is known. */
  #goesOn(group: AnsweredRows, { index, when }: OrderedService, before: number): boolean {
    if (before === 0) return true
    if (when === 'miss') return false
    return hasCellBeyond(group, before) || (group.answers[index] ?? null) !== null
  }

  #step(k: number, found: boolean, before: number, cells: number): Figures {
    const { index = 0 } = this.#order[k] ?? {}
    const cost = (found ? this.#costs[index]?.found : this.#costs[index]?.missed) ?? 0
    const step = [1, found ? 1 : 0, cells, cost]
    const total = [found && before === 0 ? 1 : 0, cells, cost]
    const at = k * step.length
    const end = this.#nothing.length - total.length
    return this.#nothing.map((_, n) => (n >= end ? total[n - end] : step[n - at]) ?? 0)
  }

  /** Rows that have these answers, and one of the service. */
  #rowsLike(answers: AnsweredRows['answers'], index: number): readonly AnsweredRows[] {
    const key = `${index}: ${answers.join()}`
    const known = this.#alike.get(key)
    if (known !== undefined) return known
    const found = this.#groups.filter(
      (one) =>
        typeof one.answers[index] === 'boolean' &&
        answers.every((answer, n) => answer === null || n === index || one.answers[n] === answer),
    )
    this.#alike.set(key, found)
    return found
  }
}

const countRows = (groups: readonly AnsweredRows[]): number => groups.reduce((sum, one) => sum + one.rows, 0)

/** Cells a row, of those sets. */
function sumCells({ rows, cells }: AnsweredRows, isCounted: (set: number) => boolean): number {
  let sum = 0
  for (const [set, count] of cells) if (isCounted(set)) sum += count
  return sum / rows
}

/** What a service fills of a row that others have filled before. */
const cellsOf = (group: AnsweredRows, index: number, before: number): number =>
  sumCells(group, (set) => (set & (1 << index)) !== 0 && (set & before) === 0)

const hasCellBeyond = ({ cells }: AnsweredRows, before: number): boolean =>
  [...cells.keys()].some((set) => (set & before) === 0)

const addTo = (sum: Figures, more: Figures, factor = 1): Figures =>
  sum.map((one, n) => one + factor * (more[n] ?? 0))

const hullOf = (a: Bounds, b: Bounds): Bounds => ({
  low: a.low.map((one, n) => Math.min(one, b.low[n] ?? 0)),
  high: a.high.map((one, n) => Math.max(one, b.high[n] ?? 0)),
})

/** One or the other, by a share between bounds: linear in it, so the extremes are at its ends. */
function mixOf(share: readonly [low: number, high: number], hit: Bounds, miss: Bounds): Bounds {
  const mix = (part: number, a: Figures, b: Figures): Figures => addTo(addTo(b, b, -part), a, part)
  const at = (part: number): Bounds => ({
    low: mix(part, hit.low, miss.low),
    high: mix(part, hit.high, miss.high),
  })
  return hullOf(at(share[0]), at(share[1]))
}

/** Of a normal distribution, 95% are within as many standard deviations. */
const DEVIATIONS = 1.96

/** Between what a share lies (95%) that was seen in `count` of `of` (Wilson's interval); 0 to 1 if nothing was seen. */
export function shareBounds(count: number, of: number): readonly [low: number, high: number] {
  if (of === 0) return [0, 1]
  const [share, square] = [count / of, DEVIATIONS ** 2]
  const middle = (share + square / (2 * of)) / (1 + square / of)
  const spread =
    (DEVIATIONS / (1 + square / of)) * Math.sqrt((share * (1 - share)) / of + square / (4 * of * of))
  return [Math.max(0, Math.min(share, middle - spread)), Math.min(1, Math.max(share, middle + spread))]
}

/** All orders of up to four services. */
export const listOrders = <Item>(items: readonly Item[]): Item[][] =>
  items.length < 2
    ? [[...items]]
    : items.flatMap((first, n) => listOrders(items.toSpliced(n, 1)).map((rest) => [first, ...rest]))
