import pg from 'pg'
import pino from 'pino'
import { openApp, type App } from '../../src/app.ts'
import { parseConfig } from '../../src/config/load.ts'
import { WRITE_POLICIES, type WritePolicy } from '../../src/domain/mapping.ts'
import { POLICY_MODEL } from '../support/policy-model.ts'
import { cloneDatabase, type TestDatabase } from '../support/clone.ts'
import { runRequest, testEnvironment } from '../support/environment.ts'
import { startRecordService, type RecordService } from '../support/record-service.ts'
import { Random } from './random.ts'
import { DOMAINS, HOLDERS, KEYS, literal, TYPES, type FuzzType, type RecordField } from './types.ts'

interface Column {
  readonly name: string
  readonly type: FuzzType
  readonly policy: WritePolicy
  /** A key inside the column is filled, not the column itself. */
  readonly isKey: boolean
  /** Filled through its own `sql` expression. */
  readonly hasSql: boolean
}

/** One row: the texts of its columns, and of the whole row. */
interface Row {
  readonly cells: readonly (string | null)[]
  readonly whole: string
}
interface CellPolicy {
  /** The policy permits to write the cell, whatever was written for another person. */
  readonly isOpen: boolean
  /** Fillrate has written it. */
  readonly isKnown: boolean
  /** It holds what Fillrate has last written. */
  readonly holdsLast: boolean
  /** It is to be replaced if the row is the one that was written for another person. */
  readonly isEarlier: boolean
}
type Table = ReadonlyMap<number, Row>

const ROWS = 14
/** Rows without an email in some cases: more than a page of 1,000. */
const FILLERS = 1_150

const SETTINGS: Readonly<Record<string, readonly string[]>> = {
  DateStyle: [`'ISO, MDY'`, `'SQL, DMY'`, `'SQL, MDY'`, `'German'`, `'Postgres, DMY'`, `'ISO, DMY'`],
  extra_float_digits: ['1', '0', '-3', '3'],
  IntervalStyle: ['postgres', 'sql_standard', 'postgres_verbose', 'iso_8601'],
  bytea_output: ['hex', 'escape'],
  TimeZone: [`'UTC'`, `'Europe/Oslo'`, `'Asia/Kathmandu'`, `'America/New_York'`],
  search_path: ['public', 'public, ext', `"$user", public`],
}

/**
 * Compares one random database with the oracle at every step: dry run, run, the same run again, edits by users, a run with
 * other records, undo, redo, undo.
 * @returns the number of compared cells
 * @throws an error that names the first difference
 */
export async function fuzzCase(server: string, seed: number): Promise<number> {
  const service = await startRecordService()
  const database = await cloneDatabase(server)
  try {
    return await new FuzzCase(database, service, new Random(seed)).run()
  } catch (error) {
    throw new Error(`seed ${seed}: ${(error as Error).message}`, { cause: error })
  } finally {
    await service.close()
    await database.drop()
  }
}

class FuzzCase {
  readonly #database: TestDatabase
  readonly #service: RecordService
  readonly #random: Random
  readonly #columns: Column[]
  readonly #isTriedApart: boolean
  #key: (typeof KEYS)[number]
  #oracle!: pg.Client
  /** The record of each row, by column; null where the service finds none. */
  #sent = new Map<number, readonly (RecordField | null)[] | null>()
  /** What Fillrate wrote last to each cell, as the oracle formats it. */
  readonly #lastWritten = new Map<string, string | null>()
  /** Rows whose address has changed since the first run: they are about another person. */
  readonly #moved = new Set<number>()
  #cells = 0

  constructor(database: TestDatabase, service: RecordService, random: Random) {
    this.#database = database
    this.#service = service
    this.#random = random
    this.#key = random.pick(KEYS)
    this.#isTriedApart = random.chance(0.3)
    this.#columns = Array.from({ length: random.int(3, 8) }, (_, n) => {
      const isKey = random.chance(0.12)
      const type = isKey ? (TYPES.find(({ sql }) => sql === 'jsonb') as FuzzType) : random.pick(TYPES)
      return {
        name: `c${n}`,
        type,
        policy: random.pick(WRITE_POLICIES),
        isKey,
        hasSql:
          !isKey &&
          /^(?:text|ext\.citext|varchar\(8\)|name|bit\(4\)|inet)$/.test(type.sql) &&
          random.chance(0.3),
      }
    })
  }

  async run(): Promise<number> {
    const fillers = this.#random.chance(0.15) ? FILLERS : 0
    await this.#create(fillers)
    this.#oracle = new pg.Client({ connectionString: this.#database.url })
    await this.#oracle.connect()
    await this.#oracle.query(
      `set DateStyle = 'ISO'; set extra_float_digits = 1; set IntervalStyle = 'postgres'; set bytea_output = 'hex';
       set TimeZone = 'UTC'; set search_path = public, ext`,
    )
    try {
      await this.#checkSteps(fillers)
    } finally {
      await this.#oracle.end()
    }
    return this.#cells
  }

  async #checkSteps(fillers: number): Promise<void> {
    const first = await this.#read()
    this.#createRecords()
    const dryRun = await this.#withApp((app) => app.run(runRequest({ dryRun: { sample: 5 } })))
    if (dryRun.rows.invalid_input !== fillers)
      throw new Error(`the dry run picked ${JSON.stringify(dryRun.rows)} of ${fillers} rows without an email`)
    await this.#expect('the dry run', first)
    const expected = await this.#expectedAfterRun(first)
    const run = await this.#withApp((app) => app.run(runRequest()))
    if (run.status !== 'completed' || run.rows.waiting > 0)
      throw new Error(
        `the run ended with ${JSON.stringify({ status: run.status, reason: run.reason, ...run.rows })}`,
      )
    await this.#expect('the run', expected)
    const written = await this.#read()
    await this.#withApp((app) => app.run(runRequest()))
    await this.#expect('the same run again', written, true)

    await this.#edit(0.2)
    const edited = await this.#move()
    this.#createRecords()
    await this.#database.pool.query(
      `update fillrate.lookups set refresh_at = now() - interval '1 s'; update fillrate.rows set due_at = now() - interval '1 s'`,
    )
    const expectedOfSecond = await this.#expectedAfterRun(edited)
    const second = await this.#withApp((app) => app.run(runRequest()))
    await this.#expect('the run with other records', expectedOfSecond)
    const after = await this.#read()
    let last = second.run
    for (const [name, table] of [
      ['undo', edited],
      ['redo', after],
      ['undo again', edited],
    ] as const) {
      last = await this.#undo(last)
      await this.#expect(name, table, true)
    }
    const later = await this.#edit(0.1)
    await this.#undo(run.run)
    await this.#expect('undo of the first run', afterUndo(later, written, first, this.#moved))
    for (const [nr, row] of await this.#read())
      if (
        !this.#moved.has(nr) &&
        later.get(nr)?.whole === written.get(nr)?.whole &&
        row.whole !== first.get(nr)?.whole
      )
        throw new Error(
          `row ${nr} after undo of the first run is ${row.whole}, and was ${first.get(nr)?.whole}`,
        )
  }

  async #create(fillers: number): Promise<void> {
    const { pool } = this.#database
    await pool.query(`
      create schema ext; create extension citext schema ext; create extension hstore schema ext; create extension ltree schema ext;
      create type public.mood as enum ('Good', 'so so'); create type public.pair as (word text, n int);
      ${DOMAINS}`)
    const keys = this.#key.map(([name, type]) => `${name} ${type}`)
    const columns = this.#columns.map(({ name, type }) => `${name} ${type.sql}`)
    await pool.query(`
      create table public.x (${[...keys, 'nr int unique', 'email text', ...columns, 'touched timestamptz', 'share int'].join(', ')},
        primary key (${this.#key
          .map(([name]) => name)
          .toReversed()
          .join(', ')}))`)
    for (let nr = 1; nr <= ROWS; nr++)
      await pool.query(`
        insert into public.x (${[...this.#key.map(([name]) => name), 'nr', 'email', ...this.#columns.map(({ name }) => name)].join(', ')})
        select ${[...this.#key.map(([, , value]) => value), 'g', literal(`p${nr}@example.com`), ...this.#columns.map((column) => this.#typedValue(column))].join(', ')}
          from (select ${nr} as g) as g`)
    if (fillers > 0)
      await pool.query(`
        insert into public.x (${[...this.#key.map(([name]) => name), 'nr'].join(', ')})
        select ${[...this.#key.map(([, , value]) => value), 'g'].join(', ')} from generate_series(${ROWS + 1}, ${ROWS + fillers}) g`)
  }

  /** SQL for a value that a user has typed into a column. */
  #typedValue({ type, isKey }: Column): string {
    if (this.#random.chance(0.4)) return 'null'
    if (isKey) return this.#random.pick(HOLDERS)[0]
    if (type.blanks.length > 0 && this.#random.chance(0.2)) return this.#random.pick(type.blanks)
    return type.typed(this.#random)
  }

  /** Creates new records at the service. */
  #createRecords(): void {
    this.#service.records.clear()
    for (let nr = 1; nr <= ROWS; nr++) {
      const isKnown = this.#random.chance(0.9)
      const sent = this.#columns.map((column) =>
        this.#random.chance(0.9) ? column.type.field(this.#random) : null,
      )
      this.#sent.set(nr, isKnown ? sent : null)
      if (!isKnown) continue
      const fields = sent.flatMap((one, n) => (one === null ? [] : [`"f${n}": ${one.json}`]))
      this.#service.records.set(
        `${this.#moved.has(nr) ? 'q' : 'p'}${nr}@example.com`,
        `{${['"confidence": 0.90', '"title": "x"', ...fields].join(', ')}}`,
      )
    }
  }

  /** Opens an app under random session settings. */
  async #withApp<T>(act: (app: App) => Promise<T>): Promise<T> {
    const name = new URL(this.#database.url).pathname.slice(1)
    for (const [setting, values] of Object.entries(SETTINGS))
      await this.#database.pool.query(`alter database ${name} set ${setting} = ${this.#random.pick(values)}`)
    const outputs = this.#columns.map(({ name: column, policy, isKey, hasSql }, n) => [
      isKey ? `${column}.k` : column,
      { field: `f${n}`, unlisted: true, policy, ...(hasSql && { sql: '$value' }) },
    ])
    const config = {
      sources: {
        s: {
          kind: 'person',
          table: 'public.x',
          inputs: { email: 't.email' },
          outputs: Object.fromEntries(outputs) as object,
          touch: {
            touched: 'clock_timestamp()',
            // Fails in every third row, so that the batch is tried apart: nothing else may differ.
            ...(this.#isTriedApart && { share: '1 / (t.nr % 3)' }),
          },
        },
      },
      budget: 'unlimited',
    }
    const app = await openApp({
      config: parseConfig(config, null),
      environment: testEnvironment(this.#database.url, this.#service.url),
      log: pino({ level: 'silent' }),
    })
    try {
      return await act(app)
    } finally {
      await app.close()
    }
  }

  /** @returns the identifier of the undo run */
  async #undo(run: number): Promise<number> {
    const { signal } = new AbortController()
    const report = await this.#withApp((app) => app.undo({ run, dryRun: false, signal }))
    if (report.changes.rejected + report.changes.row_missing > 0)
      throw new Error(`undo of run ${run}: ${JSON.stringify(report.failed)}`)
    return report.run ?? run
  }

  async #read(): Promise<Table> {
    const { rows } = await this.#oracle.query<{ nr: number; cells: (string | null)[]; whole: string }>(
      `select nr, array[${this.#columns.map(({ name }) => `${name}::text`).join(', ')}] as cells, x::text as whole
         from public.x where nr <= ${ROWS} order by nr`,
    )
    return new Map(rows.map(({ nr, cells, whole }) => [nr, { cells, whole }]))
  }

  /** Changes cells as users do. */
  async #edit(share: number): Promise<Table> {
    for (let nr = 1; nr <= ROWS; nr++)
      for (const column of this.#columns)
        if (!column.isKey && this.#random.chance(share))
          await this.#database.pool.query(
            `update public.x set ${column.name} = ${this.#typedValue(column)} where nr = ${nr}`,
          )
    return this.#read()
  }

  /** Gives some rows the address of another person. */
  async #move(): Promise<Table> {
    for (let nr = 1; nr <= ROWS; nr++) if (this.#random.chance(0.3)) this.#moved.add(nr)
    await this.#database.pool.query(
      `update public.x set email = 'q' || nr || '@example.com' where nr = any ($1::int[])`,
      [[...this.#moved]],
    )
    return this.#read()
  }

  /** The table that a run must leave, cell by cell. */
  async #expectedAfterRun(before: Table): Promise<Table> {
    const after = new Map<number, Row>()
    for (const [nr, row] of before) {
      const policies: CellPolicy[] = []
      for (const n of this.#columns.keys()) policies.push(await this.#readPolicy(nr, n))
      const earlier = this.#moved.has(nr) ? policies.filter((one) => one.isKnown) : []
      const isTakenOver = earlier.filter((one) => one.holdsLast).length >= Math.min(2, earlier.length)
      // In a row of another person, what was written for the former one counts as blank.
      const isPicked = policies.some((one) => one.isOpen || (isTakenOver && one.isEarlier))
      const sent = isPicked ? (this.#sent.get(nr) ?? null) : null
      const cells: (string | null)[] = []
      for (const [n, column] of this.#columns.entries()) {
        const text = sent?.[n]?.text ?? null
        const isOld = isTakenOver && policies[n]?.isEarlier === true
        const value =
          text !== null && (policies[n]?.isOpen || isOld) ? await this.#expectedValue(nr, column, text) : null
        // The record has no value that fits in place of the former one.
        const isEmptied = isOld && sent !== null && value === null
        const now = row.cells[n] ?? null
        const emptied = isEmptied ? await this.#emptiedValue(nr, column, now) : now
        const cell = value === null ? emptied : value.same ? now : value.made
        cells.push(cell)
        if (isEmptied && cell !== now) this.#lastWritten.delete(`${nr} ${n}`)
        else if (cell !== now) this.#lastWritten.set(`${nr} ${n}`, cell)
      }
      after.set(nr, { cells, whole: row.whole })
    }
    return after
  }

  /** What the policy permits, as Postgres evaluates it. */
  async #readPolicy(nr: number, n: number): Promise<CellPolicy> {
    const { name, type, policy, isKey } = this.#columns[n] as Column
    const { replaces, takesEarlier } = POLICY_MODEL[policy]
    const blanks = isKey ? HOLDERS.filter(([, isBlank]) => isBlank).map(([value]) => value) : type.blanks
    const [row] = await this.#query<{ blank: boolean; reachable: boolean; now: string | null }>(`
      select ${[`${name} is null`, ...blanks.map((blank) => `${name}::text = ${blank}::${type.sql}::text`)].join(' or ')} as blank,
             ${isKey ? `coalesce(jsonb_typeof(${name}) in ('object', 'null'), true)` : 'true'} as reachable,
             ${isKey ? `(${name} -> 'k')::text` : `${name}::text`} as now
        from public.x where nr = ${nr}`)
    const lastWritten = this.#lastWritten.get(`${nr} ${n}`)
    const isKnown = lastWritten !== undefined
    const holdsLast =
      isKnown &&
      row?.reachable === true &&
      (isKey ? keyIn(lastWritten) === keyIn(`{"k": ${row.now}}`) : lastWritten === row.now)
    const isMoved = this.#moved.has(nr)
    const isOpen =
      row?.reachable === true &&
      (replaces === 'all' || row.blank || (replaces === 'own' && holdsLast && !isMoved))
    return { isOpen, isKnown, holdsLast, isEarlier: isMoved && takesEarlier && holdsLast }
  }

  /** The cell without a value; as it is, where its type takes none. */
  async #emptiedValue(nr: number, { name, type, isKey }: Column, now: string | null): Promise<string | null> {
    const made = isKey ? `${name} || '{"k": null}'` : `null::${type.sql}`
    return this.#query<{ made: string | null }>(
      `select (${made})::text as made from public.x where nr = ${nr}`,
    ).then(
      ([row]) => row?.made ?? null,
      () => now,
    )
  }

  /** The value that the cell must get; null: the record has none that fits. */
  async #expectedValue(
    nr: number,
    { name, type, isKey }: Column,
    text: string,
  ): Promise<{ readonly made: string | null; readonly same: boolean } | null> {
    const value = isKey ? `${literal(text)}::jsonb` : type.cast(literal(text))
    const made = isKey
      ? `coalesce(nullif(${name}, 'null'), '{}') || jsonb_build_object('k', ${value})`
      : value
    try {
      const [row] = await this.#query<{ made: string | null; same: boolean }>(
        `select (${made})::text as made, (${type.same(name, `(${made})`)}) as same from public.x where nr = ${nr}`,
      )
      return row ?? null
    } catch (error) {
      if (type.isForeign) return null
      throw error
    }
  }

  async #query<One extends pg.QueryResultRow>(text: string): Promise<One[]> {
    return (await this.#oracle.query<One>(text)).rows
  }

  /** Fillrate's reasons for rows that it could not write. */
  async #reasons(): Promise<string> {
    const rows = await this.#query<{ reason: string }>(
      `select distinct state || ' ' || key || ': ' || reason as reason from fillrate.rows where state = 'write_rejected'`,
    )
    return rows.map(({ reason }) => reason).join('; ')
  }

  async #expect(step: string, expected: Table, isWhole = false): Promise<void> {
    const now = await this.#read()
    for (const [nr, row] of expected) {
      const is = now.get(nr)
      for (const [n, cell] of row.cells.entries()) {
        this.#cells++
        if (is?.cells[n] === cell) continue
        const { type, policy, isKey, hasSql } = this.#columns[n] as Column
        const sent = this.#sent.get(nr)?.[n]?.json
        throw new Error(
          `after ${step}, row ${nr}, ${type.sql}${isKey ? ' (its key k)' : ''}, ${policy}${hasSql ? ', by sql' : ''}, sent ${sent}: ` +
            `is ${is?.cells[n]}, expected ${cell}; ${await this.#reasons()}`,
        )
      }
      if (isWhole && is?.whole !== row.whole)
        throw new Error(`after ${step}, row ${nr} is ${is?.whole}, expected ${row.whole}`)
    }
  }
}

const keyIn = (object: string | null): string =>
  object === null ? 'null' : JSON.stringify((JSON.parse(object) as { k?: unknown }).k ?? null)

/** After an undo, a written cell holds its old value, unless it was changed since; the row of another person stays as it is. */
function afterUndo(now: Table, written: Table, before: Table, moved: ReadonlySet<number>): Table {
  return new Map(
    [...now].map(([nr, row]) => [
      nr,
      {
        ...row,
        cells: row.cells.map((cell, n) =>
          !moved.has(nr) && cell === written.get(nr)?.cells[n] ? (before.get(nr)?.cells[n] ?? null) : cell,
        ),
      },
    ]),
  )
}
