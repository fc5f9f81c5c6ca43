import type pg from 'pg'
import type { TestDatabase } from '../../support/clone.ts'
import type { ModelState } from './model-state.ts'

/** The most rows of one statement that a slow table accepts. */
const ROWS_WHILE_SLOW = 40

/** Users who edit the table, in one transaction that stays open while they hold locks; and the table's own trigger. */
export class People {
  /** Violations found during the sequence. */
  readonly violations: string[] = []
  readonly #database: TestDatabase
  readonly #model: ModelState
  #open: pg.PoolClient | null = null
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

  constructor(database: TestDatabase, model: ModelState) {
    this.#database = database
    this.#model = model
  }

  async changeInput(worlds: readonly number[], row: number): Promise<void> {
    await this.#query(
      `update worlds set email = 'w' || world || '-c${row}@example.com' where id = any ($1::int[])`,
      worlds.map((world) => world * 3 + row),
    )
    for (const world of worlds) this.#model.addAddress(world * 3 + row, `w${world}-c${row}@example.com`)
  }

  async edit(worlds: readonly number[], row: number, column: 'title' | 'phone'): Promise<void> {
    const ids = worlds.map((world) => world * 3 + row)
    await this.#query(`update worlds set ${column} = 'typed in row ' || id where id = any ($1::int[])`, ids)
    for (const id of ids) this.#model.typed.set(`${id} ${column}`, `typed in row ${id}`)
  }

  /** A user locks the row and keeps the transaction open. */
  async lock(worlds: readonly number[], row: number): Promise<void> {
    if (this.#open === null) {
      this.#open = await this.#database.pool.connect()
      await this.#open.query('begin')
    }
    const ids = worlds.map((world) => world * 3 + row)
    await this.#query('select from worlds where id = any ($1::int[]) for update', ids)
  }

  async unlock(): Promise<void> {
    await this.#open?.query('commit')
    this.#open?.release()
    this.#open = null
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
    const { rows } = await this.#database.pool.query<{ id: number }>(
      `select id from worlds where id in (
         select r.key::int from fillrate.write_back_queue u join fillrate.lookups l on l.id = any(u.lookup_ids)
           join fillrate.rows r on r.lookup_id = l.id
          where r.state = 'waiting' and not r.is_dry_run and l.state in ('found', 'not_found', 'rejected', 'failed'))
       for no key update skip locked`,
    )
    for (const { id } of rows)
      this.violations.push(`row ${id} was left, although no transaction had locked it`)
  }

  async #query(text: string, ids: readonly number[]): Promise<void> {
    await (this.#open ?? this.#database.pool).query(text, [ids])
  }
}
