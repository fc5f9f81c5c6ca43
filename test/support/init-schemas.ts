import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type pg from 'pg'

/** What `init` is to write for a schema, by source. */
export type ExpectedSources = Readonly<Record<string, ExpectedSource>>

interface ExpectedSource {
  readonly kind: 'person' | 'company'
  /** Default: the name of the source. */
  readonly table?: string
  readonly inputs: Readonly<Record<string, string>>
  /** The field of each column, and behind it the labels of its map: `industry | Retail | Software`. */
  readonly outputs: Readonly<Record<string, string>>
  /** Conditions in force, with the rows that each leaves out. Default: none. */
  readonly active?: Readonly<Record<string, number>>
  /** The commented lines of each column that may say who must not be looked up: `t.status`, `sales_consent x.status`. */
  readonly offered: Readonly<Record<string, number>>
}

const FOLDER = join(import.meta.dirname, '../fixtures/schemas')

/** The folders of test/fixtures/schemas: a schema, its rows, and what `init` is to write. */
export const schemaNames: readonly string[] = readdirSync(FOLDER, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map((entry) => entry.name)

export async function readExpectedSources(name: string): Promise<Record<string, Required<ExpectedSource>>> {
  const url = pathToFileURL(join(FOLDER, name, 'expected.ts')).href
  const { expected } = (await import(url)) as { expected: ExpectedSources }
  return Object.fromEntries(
    Object.entries(expected).map(([source, one]) => [source, { table: source, active: {}, ...one }]),
  )
}

/** Creates the tables of a schema and fills them: the same rows every time. */
export async function createSchema(pool: pg.Pool, name: string): Promise<void> {
  const read = (...path: string[]): string => readFileSync(join(FOLDER, ...path), 'utf8')
  const client = await pool.connect()
  try {
    await client.query(read('seed.sql'))
    await client.query(read(name, 'schema.sql'))
    await client.query(read(name, 'data.sql'))
    await client.query('set client_min_messages = warning; drop schema seed cascade; analyze')
  } finally {
    client.release(true)
  }
}

/** The column that a condition is about, as `ExpectedSource.offered` names it. */
export function columnOf(keep: string): string {
  const [, table, inner] = /select from (\S+) x where \S+ = t\.\S+ and (.*)\)$/.exec(keep) ?? []
  const [cell = ''] = /[tx]\.(?:"[^"]+"|\w+)(?: ->>? '[^']+')*/.exec(inner ?? keep) ?? []
  return table === undefined ? cell : `${table} ${cell}`
}
