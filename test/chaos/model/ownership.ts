import type pg from 'pg'
import { COLUMNS, record, SERVICES, type Column } from './model-state.ts'

/** One cell that Fillrate wrote. */
interface Write {
  readonly row: number
  readonly column: Column
  readonly run: number
  /** The address that the row had: whose value it is. */
  readonly email: string
  before: string | null
  readonly after: string | null
  /** What held the cell before; null: a user, or nothing. */
  prior: Write | null
  /** The write whose value the cell has: itself, or of an undo the one whose value is restored. */
  readonly holder: Write | null
  isUndone: boolean
  /** Its change may have been erased. */
  isErased: boolean
  /** Fillrate has noticed that the key is another's: its row was deleted, or written as another's. Until it has the address again. */
  isNoticed: boolean
}

interface SeenRow extends Readonly<Record<Column, string | null>> {
  readonly id: number
  readonly email: string
  readonly state: string | null
  /** The service whose record the row waits for, or has; null: the record is of another address. */
  readonly service: (typeof SERVICES)[number] | null
}

interface SeenChange {
  readonly row: number
  readonly run: number
  readonly before: Readonly<Record<string, string | null>>
  readonly after: Readonly<Record<string, string | null>>
}

interface Known {
  /** By cell: the write whose result it still holds, untouched. */
  readonly held: ReadonlyMap<string, Write>
  /** By cell: what Fillrate last wrote under this key, whoever has changed the cell or the row since. */
  readonly last: ReadonlyMap<string, Write>
}

const cellName = (row: number, column: Column): string => `${row} ${column}`

const isWrittenForOther = ({ id, email }: SeenRow, column: Column, { last }: Known): boolean => {
  const write = last.get(cellName(id, column))
  return write !== undefined && write.email !== email && !write.isNoticed
}

/** Whether the policy allows replacing what the cell holds: `phone` is tracked, the others are `blank`. */
function mayReplace(seen: SeenRow, column: Column, known: Known): boolean {
  const name = cellName(seen.id, column)
  const holder = known.held.get(name)?.holder
  if (holder != null) return holder.email !== seen.email || column === 'phone'
  // A user has set what Fillrate had written there: one such value may be chance, several are the row itself.
  const last = known.last.get(name)
  if (last === undefined || last.after !== seen[column]) return false
  if (column === 'phone' && last.email === seen.email) return true
  return isWrittenForOther(seen, column, known) && isSameRow(seen, known)
}

/** Whether the row is the one that was written for another address. */
function isSameRow(seen: SeenRow, known: Known): boolean {
  const earlier = COLUMNS.filter((one) => isWrittenForOther(seen, one, known))
  const equal = earlier.filter((one) => known.last.get(cellName(seen.id, one))?.after === seen[one])
  return equal.length >= Math.min(2, earlier.length)
}

/**
 * Whose value each cell is, recorded from what users do and from each cell that changes while Fillrate works. It knows the rules of
 * docs/how-it-works.md ("Whose value it is") and none of the columns by which Fillrate follows them.
 */
export class Ownership {
  readonly violations: string[] = []
  readonly #pool: pg.Pool
  readonly #held = new Map<string, Write>()
  readonly #last = new Map<string, Write>()
  /** As `last`, also after an undo. */
  readonly #ever = new Map<string, Write>()
  readonly #byRun = new Map<number, Write[]>()
  /** By row: the address that users gave it last, if they have inserted it or changed it. */
  readonly #addresses = new Map<number, string>()
  /** By write: the next one of its cell, if nobody has touched the cell between the two. */
  readonly #over = new Map<Write, Write>()
  /** Rows of which something was undone or erased: what they owe to earlier inputs is not predicted. */
  readonly #unclear = new Set<number>()
  #lastChange = 0

  constructor(pool: pg.Pool) {
    this.#pool = pool
  }

  /** Runs that have written, the undone ones and the undos among them. */
  get runs(): number[] {
    return [...this.#byRun.keys()]
  }

  /** A user has set these cells. */
  touch(row: number, columns: readonly Column[] = COLUMNS): void {
    for (const column of columns) this.#held.delete(cellName(row, column))
  }

  /** What Fillrate last wrote in the columns of policy `blank` of the last row with this key, if it wrote both, and for which addresses. */
  formerValues(row: number): {
    readonly title: string | null
    readonly seniority: string | null
    readonly emails: readonly string[]
  } {
    const [title, seniority] = [this.#ever.get(`${row} title`), this.#ever.get(`${row} seniority`)]
    if (title === undefined || seniority === undefined) return { title: null, seniority: null, emails: [] }
    return { title: title.after, seniority: seniority.after, emails: [title.email, seniority.email] }
  }

  /** Users have given the row this address; null: they have deleted it. */
  identify(row: number, email: string | null): void {
    if (email === null) this.#addresses.delete(row)
    else this.#addresses.set(row, email)
    for (const write of this.#lastOf(row)) if (write.email === email) write.isNoticed = false
  }

  /**
   * Fillrate has noticed that the row is deleted: what it wrote there is a user's in any other row with the key. A row that is
   * inserted with the address of the write is the same one, as after a reload of its table, and Fillrate's values in it are its own:
   * whose a value is depends on the inputs that it was written for (docs/how-it-works.md).
   */
  notice(row: number): void {
    for (const write of this.#lastOf(row)) write.isNoticed = write.email !== this.#addresses.get(row)
  }

  #lastOf = (row: number): Write[] =>
    COLUMNS.map((column) => this.#last.get(cellName(row, column))).filter((write) => write !== undefined)

  /** What is stored of the row may have been erased. */
  erase(row: number): void {
    this.#unclear.add(row)
    for (const writes of this.#byRun.values())
      for (const write of writes) if (write.row === row) write.isErased = true
  }

  /** Watches a write-back. @param locked rows that users have locked */
  async duringWrite(locked: ReadonlySet<number>, act: () => Promise<unknown>): Promise<void> {
    const { before, after, changes } = await this.#watch(act)
    const known = { held: new Map(this.#held), last: new Map(this.#last) }
    for (const change of changes) {
      const seen = before.get(change.row)
      if (seen === undefined) this.violations.push(`row ${change.row} was written, and does not exist`)
      else
        for (const column of COLUMNS)
          if (column in change.after) this.#judgeWrite(seen, column, change, known)
    }
    for (const row of before.values()) {
      const now = after.get(row.id)
      const isFinished = row.state === 'waiting' && (now?.state === 'enriched' || now?.state === 'unchanged')
      if (now === undefined || !isFinished || now.service === null || locked.has(row.id)) continue
      this.#judgeOmissions(row, now, known)
    }
    for (const { row } of changes) {
      const seen = before.get(row)
      if (seen !== undefined && !isSameRow(seen, known)) this.notice(row)
    }
  }

  /** Watches the undo of a run. */
  async duringUndo(undone: number, locked: ReadonlySet<number>, act: () => Promise<unknown>): Promise<void> {
    const writes = this.#byRun.get(undone) ?? []
    const { before, after, changes } = await this.#watch(act)
    const due = writes.filter(
      (write) =>
        !write.isUndone &&
        !write.isErased &&
        !locked.has(write.row) &&
        this.#held.get(cellName(write.row, write.column)) === write &&
        before.get(write.row)?.email === write.email,
    )
    for (const { row, run, before: old, after: made } of changes)
      for (const column of COLUMNS)
        if (column in made)
          this.#judgeRestored(undone, {
            row,
            column,
            run,
            email: before.get(row)?.email ?? '',
            before: old[column] ?? null,
            after: made[column] ?? null,
          })
    this.#passOn(writes, new Set(changes.map(({ row }) => row)), before)
    for (const write of due)
      if (!write.isUndone)
        this.violations.push(
          `row ${write.row}: undo of run ${undone} left ${write.column} ${after.get(write.row)?.[write.column]}, which the run wrote over ${write.before}`,
        )
  }

  /** A write over one that is undone and stays gives back, once it is undone itself, what was there before both. */
  #passOn(writes: readonly Write[], restored: ReadonlySet<number>, rows: ReadonlyMap<number, SeenRow>): void {
    for (const write of writes) {
      const isKept = !write.isUndone && restored.has(write.row) && rows.get(write.row)?.email === write.email
      const next = isKept ? this.#over.get(write) : undefined
      if (next === undefined || next.isUndone || next.holder !== next) continue
      next.before = write.before
      next.prior = write.prior
      if (write.prior) this.#over.set(write.prior, next)
    }
  }

  async #watch(act: () => Promise<unknown>): Promise<{
    readonly before: ReadonlyMap<number, SeenRow>
    readonly after: ReadonlyMap<number, SeenRow>
    readonly changes: readonly SeenChange[]
  }> {
    const before = await this.#read()
    await act()
    const after = await this.#read()
    const { rows: changes } = await this.#pool.query<SeenChange & { readonly id: number }>(
      `select id::int, key::int as row, run_id::int as run, before, after from fillrate.changes where id > $1 order by id`,
      [this.#lastChange],
    )
    this.#lastChange = changes.at(-1)?.id ?? this.#lastChange
    // Every cell that differs is explained by the changes, one after the other.
    const explained = new Map([...before].map(([id, row]) => [id, { ...row }]))
    for (const { row, before: old, after: made } of changes) {
      const cells = explained.get(row)
      for (const column of COLUMNS) {
        if (cells === undefined || !(column in made)) continue
        if (cells[column] !== (old[column] ?? null))
          this.violations.push(
            `row ${row}: ${column} was ${cells[column]}, and its change says ${old[column]}`,
          )
        Object.assign(cells, { [column]: made[column] ?? null })
      }
    }
    for (const [id, row] of after)
      for (const column of COLUMNS)
        if (row[column] !== explained.get(id)?.[column])
          this.violations.push(
            `row ${id}: ${column} is ${row[column]}, and its changes explain ${explained.get(id)?.[column]}`,
          )
    return { before, after, changes }
  }

  async #read(): Promise<ReadonlyMap<number, SeenRow>> {
    const { rows } = await this.#pool.query<SeenRow>(
      `select t.id, t.email, ${COLUMNS.map((column) => `t.${column}`).join(', ')}, r.state, l.service_id::int as service
         from worlds t left join fillrate.rows r on r.key = t.id::text
         left join fillrate.lookups l on l.id = r.lookup_id and l.key = t.email and l.state = 'found'`,
    )
    return new Map(rows.map((row) => [row.id, row]))
  }

  #judgeWrite(seen: SeenRow, column: Column, change: SeenChange, known: Known): void {
    const { id, email } = seen
    const before = change.before[column] ?? null
    const after = change.after[column] ?? null
    if (after !== null && !SERVICES.some((service) => record(email, service)[column] === after))
      this.violations.push(`row ${id} of ${email}: ${column} ${after} is of no record of its own`)
    if (after === null && known.held.get(cellName(id, column))?.holder?.email === email)
      this.violations.push(`row ${id} of ${email}: ${column} ${before}, which is of its own, was emptied`)
    if (before !== null && !mayReplace(seen, column, known))
      this.violations.push(
        `row ${id} of ${email}: ${column} ${before}, which is not Fillrate's to replace, became ${after}`,
      )
    this.#record({
      row: id,
      column,
      run: change.run,
      email,
      before,
      after,
      prior: this.#ownerOf(seen, column, before),
      holder: null,
      isUndone: false,
      isErased: false,
      isNoticed: false,
    })
  }

  /** A row that was finished with a record must have all of it that the policies allow. */
  #judgeOmissions(seen: SeenRow, now: SeenRow, known: Known): void {
    const { id, email } = seen
    const isEarlier = (column: Column): boolean => {
      const holder = known.held.get(cellName(id, column))?.holder
      return isWrittenForOther(seen, column, known) && known.last.get(cellName(id, column)) === holder
    }
    const earlier = COLUMNS.filter((column) => isWrittenForOther(seen, column, known))
    const isTakenOver = COLUMNS.filter(isEarlier).length >= Math.min(2, earlier.length)
    for (const column of COLUMNS) {
      const value = record(email, now.service ?? 0)[column] ?? null
      if (now[column] === value) continue
      if (seen[column] === null)
        this.violations.push(
          `row ${id} of ${email}: ${column} was blank, and is ${now[column]}, not ${value}`,
        )
      else if (isTakenOver && isEarlier(column) && !this.#unclear.has(id))
        this.violations.push(
          `row ${id} of ${email}: ${column} still is ${seen[column]}, which was written for another address`,
        )
    }
  }

  #judgeRestored(
    undone: number,
    cell: Pick<Write, 'row' | 'column' | 'run' | 'email' | 'before' | 'after'>,
  ): void {
    const { row, column, email, before, after } = cell
    this.#unclear.add(row)
    const write = this.#byRun
      .get(undone)
      ?.findLast((one) => one.row === row && one.column === column && !one.isUndone && one.email === email)
    if (write === undefined || write.after !== before || write.before !== after)
      this.violations.push(
        `row ${row} of ${email}: undo of run ${undone} made ${column} ${after} of ${before}, and the run wrote ${write?.after} over ${write?.before}`,
      )
    if (write) write.isUndone = true
    this.#record(
      {
        ...cell,
        prior: this.#ownerOf({ id: row, email }, column, before),
        holder: write?.prior?.holder ?? null,
        isUndone: false,
        isErased: false,
        isNoticed: false,
      },
      true,
    )
  }

  /**
   * The write that the cell holds, also in a row that was inserted again with its key, inputs and values: it is the same one, so
   * an undo there gives the cell back to that write, and not to the user who has loaded the table again.
   */
  #ownerOf({ id, email }: Pick<SeenRow, 'id' | 'email'>, column: Column, value: string | null): Write | null {
    const name = cellName(id, column)
    const last = this.#last.get(name)
    return this.#held.get(name) ?? (last?.email === email && last.after === value ? last : null)
  }

  #record(write: Write, isUndo = false): void {
    const name = cellName(write.row, write.column)
    // What was only emptied is nobody's.
    const recorded: Write = isUndo || write.after === null ? write : Object.assign(write, { holder: write })
    if (recorded.prior) this.#over.set(recorded.prior, recorded)
    const ofRun = this.#byRun.get(write.run) ?? []
    ofRun.push(recorded)
    this.#byRun.set(write.run, ofRun)
    this.#held.set(name, recorded)
    if (recorded.holder === null) this.#last.delete(name)
    else {
      this.#last.set(name, recorded.holder)
      this.#ever.set(name, recorded.holder)
    }
  }
}
