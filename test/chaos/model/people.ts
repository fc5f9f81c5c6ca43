import type pg from 'pg'
import type { TestDatabase } from '../../support/clone.ts'
import { COLUMNS, type Column, type ModelState } from './model-state.ts'
import type { Ownership } from './ownership.ts'

/** The most rows of one statement that a slow table accepts. */
const ROWS_WHILE_SLOW = 40

/** Users who edit the table, in one transaction that stays open while they hold locks; and the table's own trigger. */
export class People {
  /** Violations found during the sequence. */
  readonly violations: string[] = []
  readonly #database: TestDatabase
  readonly #model: ModelState
  readonly #ownership: Ownership
  /** Rows that an open transaction has locked. */
  readonly locked = new Set<number>()
  #open: pg.PoolClient | null = null
  #isLocking = false
  #isSlow = false

  /** A trigger that lets Fillrate's large statements time out, as a slow table does, at any speed of the machine. */
  static readonly tables = `
    create table slow (rows int not null);
    insert into slow values (2000000000);
    create function be_slow() returns trigger language plpgsql as $$
    begin
      if current_setting('application_name') = 'fillrate' and (select count(*) from made) > (select rows from slow) then
        raise exception 'made on purpose' using errcode = 'query_canceled';
      end if;
      return null;
    end $$;
    create trigger be_slow after update on worlds referencing new table as made
      for each statement execute function be_slow();`

  constructor(database: TestDatabase, model: ModelState, ownership: Ownership) {
    this.#database = database
    this.#model = model
    this.#ownership = ownership
  }

  /** Users of every third world edit in the transaction that holds locks, all others commit at once. */
  async inParts(
    worlds: readonly number[],
    edit: (worlds: readonly number[]) => Promise<void>,
  ): Promise<void> {
    for (const isLocking of [true, false]) {
      this.#isLocking = isLocking
      const part = worlds.filter((world) => (world % 3 === 0) === isLocking)
      if (part.length > 0) await edit(part)
    }
  }

  /** The row gets another address. @param isEmptied a cell becomes blank with it, so that the row is picked again */
  async changeInput(worlds: readonly number[], row: number, name: string, isEmptied = false): Promise<void> {
    const column = COLUMNS[row] ?? 'title'
    const changed = await this.#query(
      `update worlds set email = ${addressSql(name)} ${isEmptied ? `, ${column} = null` : ''}
        where id = any ($1::int[]) returning id, email`,
      idsOf(worlds, row),
    )
    for (const { id, email } of changed) {
      this.#model.addAddress(id, email)
      this.#ownership.identify(id, email)
      if (isEmptied) this.#set(id, column, null)
    }
  }

  async edit(worlds: readonly number[], row: number, column: Column): Promise<void> {
    const edited = await this.#query(
      `update worlds set ${column} = 'typed in row ' || id where id = any ($1::int[]) returning id, email`,
      idsOf(worlds, row),
    )
    for (const { id } of edited) this.#set(id, column, `typed in row ${id}`)
  }

  /** The key is used again for another person, of whom somebody has typed the title that the former one had. */
  async reuseKey(worlds: readonly number[], row: number): Promise<void> {
    const reused = await this.#query(
      `with former as (select * from worlds where id = any ($1::int[])),
            gone as (delete from worlds where id = any ($1::int[]) returning id)
       select former.id, ${addressSql(`e${row}`)} as email, title from former join gone using (id)`,
      idsOf(worlds, row),
    )
    await this.#insert(reused)
    for (const { id, email, title } of reused) {
      const isTyped = this.#model.typed.has(`${id} title`)
      // A single value may be taken over where it is all that was written: it still is of an address that the row has had.
      this.#replace(id, email, { keepsAddresses: title !== null && !isTyped })
      if (isTyped) this.#model.type(id, 'title', title ?? null)
    }
  }

  async deleteRow(worlds: readonly number[], row: number): Promise<void> {
    const deleted = await this.#query(
      `delete from worlds where id = any ($1::int[]) returning id, email`,
      idsOf(worlds, row),
    )
    for (const { id, email } of deleted) {
      this.#replace(id, email)
      this.#ownership.identify(id, null)
    }
  }

  /** Another person gets the key of a row that was deleted a while ago, with the values that the former one had. */
  async insertRow(worlds: readonly number[], row: number): Promise<void> {
    const free = await this.#query(
      `select id, 'w' || id / 3 || '-f${row}@example.com' as email from unnest($1::int[]) as g (id)
        where id not in (select id from worlds)`,
      idsOf(worlds, row),
    )
    const inserted = free.map((one) => ({ ...one, ...this.#ownership.formerValues(one.id) }))
    await this.#insert(inserted)
    for (const { id, email, emails } of inserted) {
      this.#replace(id, email)
      for (const former of emails) this.#model.addAddress(id, former)
    }
  }

  /** The rows of a world are loaded again, with all their values and the keys of others. */
  async reload(worlds: readonly number[]): Promise<void> {
    const rows = await this.#query(
      `delete from worlds where world = any ($1::int[]) returning id, email, title, seniority, phone`,
      worlds,
    )
    const moved = rows.map((row) => ({
      ...row,
      id: row.id - (row.id % 3) + ((row.id + 1) % 3),
      from: row.id,
    }))
    await this.#insert(moved)
    for (const { id } of rows) this.#ownership.identify(id, null)
    const former = moved.map(({ from }) => ({
      addresses: this.#model.addresses.get(from) ?? [],
      typed: COLUMNS.map((column) => this.#model.typed.get(`${from} ${column}`)),
    }))
    for (const [n, { id, email }] of moved.entries()) {
      this.#replace(id, email)
      for (const address of former[n]?.addresses ?? []) this.#model.addAddress(id, address)
      for (const [at, column] of COLUMNS.entries()) {
        const typed = former[n]?.typed[at]
        if (typed !== undefined) this.#model.type(id, column, typed)
      }
    }
  }

  #set(id: number, column: Column, value: string | null): void {
    this.#model.type(id, column, value)
    this.#ownership.touch(id, [column])
  }

  /** The key is that of another row now. */
  #replace(id: number, email: string, { keepsAddresses = false } = {}): void {
    if (!keepsAddresses) this.#model.addresses.delete(id)
    this.#model.addAddress(id, email)
    for (const column of COLUMNS) this.#model.type(id, column, null)
    this.#ownership.touch(id)
    this.#ownership.identify(id, email)
  }

  #insert(rows: readonly TypedRow[]): Promise<TypedRow[]> {
    return this.#query(
      `insert into worlds (id, world, email, title, seniority, phone)
       select id, id / 3, email, title, seniority, phone
         from jsonb_to_recordset($1) as r (id int, email text, title text, seniority text, phone text) returning id, email`,
      JSON.stringify(rows),
    )
  }

  /** A user locks the row and keeps the transaction open. */
  async lock(worlds: readonly number[], row: number): Promise<void> {
    if (!this.#isLocking) return
    if (this.#open === null) {
      this.#open = await this.#database.pool.connect()
      await this.#open.query('begin')
    }
    await this.#query('select id from worlds where id = any ($1::int[]) for update', idsOf(worlds, row))
  }

  async unlock(): Promise<void> {
    await this.#open?.query('commit')
    this.#open?.release()
    this.#open = null
    this.locked.clear()
  }

  async slow(isSlow = !this.#isSlow): Promise<void> {
    this.#isSlow = isSlow
    await this.#database.pool.query('update slow set rows = $1', [isSlow ? ROWS_WHILE_SLOW : 2_000_000_000])
  }

  /** Makes rows due that were left for later. */
  async makeDue(): Promise<void> {
    await this.#database.pool.query(
      `update fillrate.rows set due_at = now() where state = 'waiting' and due_at is not null`,
    )
  }

  /** After a write-back, every row that is answered and not written must be locked. */
  async checkLeftRows(): Promise<void> {
    const rows = await this.#database.query<{ id: number }>(
      `select id from worlds where id in (
         select r.key::int from fillrate.answered_lookups u join fillrate.lookups l on l.id = u.lookup_id
           join fillrate.rows r on r.lookup_id = l.id
          where r.state = 'waiting' and l.state in ('found', 'not_found', 'rejected', 'failed'))
       for no key update skip locked`,
    )
    for (const { id } of rows)
      this.violations.push(`row ${id} was left, although no transaction had locked it`)
  }

  async #query(text: string, parameter: readonly number[] | string): Promise<TypedRow[]> {
    const open = this.#isLocking ? this.#open : null
    const { rows } = await (open ?? this.#database.pool).query<TypedRow>(text, [parameter])
    if (open !== null) for (const { id } of rows) this.locked.add(id)
    return rows
  }
}

/** A row as users set it. */
interface TypedRow extends Partial<Readonly<Record<Column, string | null>>> {
  readonly id: number
  readonly email: string
}

const idsOf = (worlds: readonly number[], row: number): number[] => worlds.map((world) => world * 3 + row)

const addressSql = (name: string): string => `'w' || world || '-${name}@example.com'`
