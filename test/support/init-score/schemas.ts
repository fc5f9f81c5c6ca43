import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type pg from 'pg'
import type { SchemaExpectation } from './expectation.ts'

const FOLDER = join(import.meta.dirname, '../../fixtures/schemas')

/** Folders of test/fixtures/schemas: a schema with data, and what a careful engineer would map in it. */
export const schemaNames = (): string[] =>
  readdirSync(FOLDER)
    .filter((name) => existsSync(join(FOLDER, name, 'expected.ts')))
    .toSorted()

export async function readExpectation(name: string): Promise<SchemaExpectation> {
  const url = pathToFileURL(join(FOLDER, name, 'expected.ts')).href
  const { expectation } = (await import(url)) as { expectation: SchemaExpectation }
  return expectation
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
