import type pg from 'pg'
import { companyRecord } from '../../../src/sandbox/companies.ts'
import { personRecord } from '../../../src/sandbox/people.ts'
import type { SandboxOptions } from '../../../src/sandbox/options.ts'
import { type ChangedCell, listUserTables } from './cells.ts'
import {
  rightOutputs,
  type ExpectedOutput,
  type ExpectedSource,
  type SchemaExpectation,
} from './expectation.ts'
import { readExpectedRows, type ExpectedRow } from './rows.ts'

/** An expected source with its rows as they were before the run. */
export interface JudgedSource {
  readonly source: ExpectedSource
  /** As the catalogue names it. */
  readonly table: string
  readonly key: string
  readonly rows: ReadonlyMap<string, ExpectedRow>
}

type RecordOptions = Pick<SandboxOptions, 'seed' | 'missingShare'>

/** Reads what identifies each row, before anything is written. */
export async function prepareJudgement(
  pool: pg.Pool,
  { sources }: SchemaExpectation,
): Promise<JudgedSource[]> {
  const tables = await listUserTables(pool)
  const plain = (name: string): string => name.replaceAll('"', '').replace(/^public\./, '')
  const judged: JudgedSource[] = []
  for (const source of sources) {
    const table = tables.find(({ name }) => plain(name) === plain(source.table))
    if (!table?.key) {
      // No file can name a mirror's table without a key.
      if (source.isOptional === true) continue
      throw new Error(`${source.table} has no unique key`)
    }
    const rows = await readExpectedRows(pool, source, table.key)
    judged.push({ source, table: table.name, key: table.key, rows })
  }
  return judged
}

/**
 * What is wrong with the cells that a run has written: another column than those expected, a row that must be left out,
 * a typed value overwritten, or a value that is not in the record of this row's person or company.
 */
export async function judgeCells(
  pool: pg.Pool,
  judged: readonly JudgedSource[],
  cells: readonly ChangedCell[],
  options: RecordOptions,
): Promise<string[]> {
  const shown = await readShownValues(pool, judged)
  return cells.flatMap((cell) => {
    const place = `${cell.table}.${cell.column}`
    const sources = judged.filter(({ table }) => table === cell.table)
    const fitting = sources.filter(
      ({ source }) => source.freshness === cell.column || rightOutputs(source)[cell.column] !== undefined,
    )
    if (fitting.length === 0) return [`${place}: not a column to write`]
    const included = fitting.filter(({ rows }) => rows.get(cell.row)?.excludedBy.length === 0)
    if (included.length === 0)
      return [
        `${place}: row left out as ${fitting[0]?.rows.get(cell.row)?.excludedBy.join(', ') ?? 'unknown'}`,
      ]
    if (included.some(({ source }) => source.freshness === cell.column)) return []
    if (!isBlank(cell.before)) return [`${place}: ${JSON.stringify(cell.before)} was overwritten`]
    const isRight = included.some(({ source, rows }) => {
      const output = rightOutputs(source)[cell.column]
      const row = rows.get(cell.row)
      if (output === undefined || row === undefined) return false
      const text = shown.get(`${cell.table} ${cell.column} ${cell.row}`) ?? cell.after
      return possibleRecords(source, row, options).some((record) => isShownValue(output, text, record))
    })
    return isRight ? [] : [`${place}: ${JSON.stringify(cell.after)} is not this row's value`]
  })
}

const isBlank = (value: unknown): boolean =>
  value == null ||
  (typeof value === 'string' && value.trim() === '') ||
  (Array.isArray(value) && value.length === 0)

/** Values of cells whose expectation says how to see them, after the run. */
async function readShownValues(
  pool: pg.Pool,
  judged: readonly JudgedSource[],
): Promise<ReadonlyMap<string, string>> {
  const values = new Map<string, string>()
  for (const { source, table, key } of judged)
    for (const [column, output] of Object.entries(rightOutputs(source))) {
      if (typeof output === 'string' || output.shown === undefined) continue
      const { rows } = await pool.query<{ key: string; value: string | null }>(
        `select ${key} as key, (${output.shown})::text as value from ${table} t`,
      )
      for (const row of rows) if (row.value !== null) values.set(`${table} ${column} ${row.key}`, row.value)
    }
  return values
}

/** The records of every identifier that a row has. */
function possibleRecords(source: ExpectedSource, row: ExpectedRow, options: RecordOptions): unknown[] {
  const { email = [], linkedin_url = [], name = [], company = [], domain = [] } = row.inputs
  const present = (values: ReadonlyArray<string | null>): string[] => values.filter((value) => value !== null)
  if (source.kind === 'company') return present(domain).map((key) => companyRecord(options.seed, key))
  return [
    ...present(email).map((key) => personRecord({ kind: 'email', key }, options)),
    ...present(linkedin_url).map((key) =>
      personRecord({ kind: 'linkedin', key, url: `https://${key}` }, options),
    ),
    ...present(name).flatMap((one) =>
      present(company).map((employer) =>
        personRecord({ kind: 'name', key: `name:${one}|${employer}`, name: one, company: employer }, options),
      ),
    ),
  ]
}

function isShownValue(output: ExpectedOutput, cell: unknown, record: unknown): boolean {
  const { field, labels = {} } = typeof output === 'string' ? { field: output } : output
  const value = field
    .split('.')
    .reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], record)
  if (value === undefined) return false
  const text = String(cell)
  if (labels[String(value)]?.includes(text)) return true
  if (typeof value === 'number') return Number(text) === value
  if (field === 'phone') return digits(text) === digits(String(value))
  return plainText(text) === plainText(String(value))
}

const digits = (text: string): string => text.replaceAll(/\D/g, '')

/** Without what depends on how a column spells its values. */
const plainText = (text: string): string =>
  text
    .toLowerCase()
    .replace(/^https?:\/\/(?:www\.)?/, '')
    .replaceAll(/[^\p{L}\p{N}]/gu, '')
