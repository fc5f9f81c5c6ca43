import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Config } from '../../../src/config/config.ts'
import type { SourceMapping } from '../../../src/domain/mapping.ts'
import { readTable } from '../../../src/sources/catalogue.ts'
import { openSource } from '../../../src/sources/source.ts'
import { createTestDatabase, type TestDatabase } from '../../support/database.ts'
import { runProgram } from '../../support/program.ts'
import { createPrompt, type Prompt, type Prompted } from '../init/prompt.ts'
import { exampleNames, folderOf, load, readConfig } from './example.ts'
import { readTables, type Tables } from './tables.ts'

/** `public.a`, `"b"."c"` → `a`, `b.c`. */
const plain = (table: string): string => table.replaceAll('"', '').replace(/^public\./, '')

/** What a configuration fills: table, column and field. */
const mapped = (config: Config): string[] =>
  Object.values(config.sources).flatMap((source) =>
    source.outputs.map(({ column, field }) => `${plain(source.table)} ${column} ← ${field}`),
  )

/** Sources for rows that belong to a person or company are written by hand: init proposes the main tables. */
const proposable = exampleNames.filter((name) => name !== 'related-tables')

describe.each(proposable)('init on %s', (name) => {
  let database: TestDatabase
  let prompt: Prompt
  let before: Tables
  let ended: Prompted
  let proposed: Config
  let made: Config
  beforeAll(async () => {
    database = await createTestDatabase()
    await load(database, name)
    await database.query('drop schema expected cascade')
    before = await readTables(database.pool)
    prompt = await createPrompt(database.url)
    ended = await prompt.run(['--yes'])
    proposed = await readConfig(prompt.folder)
    const { sources, ...rest } = await readConfig(folderOf(name))
    // Addresses of companies in a table of their own may be those of deliveries: they are mapped by hand.
    const main = Object.entries(sources).filter(([, { table }]) => plain(table) !== 'crm.addresses')
    made = { ...rest, sources: Object.fromEntries(main) }
  })
  afterAll(async () => {
    await prompt.remove()
    await database.drop()
  })

  test('--yes exits with 0, without a prompt and without a change in the database', async () => {
    expect(ended).toMatchObject({ code: 0, stderr: '' })
    expect(ended.stdout).not.toContain('[Y/n]')
    expect(await readTables(database.pool)).toEqual(before)
  })

  test('every proposed source is valid for the database, once a person has read it', async () => {
    expect(Object.keys(proposed.sources).length).toBe(Object.keys(made.sources).length)
    for (const mapping of Object.values(proposed.sources)) {
      expect(mapping.reviewed).toBe(false)
      const read = openSource(database.db, { ...mapping, reviewed: true })
      await expect(read).resolves.toMatchObject({ name: mapping.name })
    }
  })

  test('the proposal as JSON passes check, apart from warnings', async () => {
    await prompt.run(['--yes', '--out', 'proposed.json'])
    const env = {
      DATABASE_URL: database.url,
      // Nothing listens there: the finding about the service is expected.
      FILLRATE_BASE_URL: 'http://127.0.0.1:1',
      FILLRATE_API_KEY: 'none',
    }
    const words = ['check', '--config', 'proposed.json', '--json']
    const { stdout } = await runProgram({ cwd: prompt.folder, env }, ...words)
    const { checks } = JSON.parse(stdout) as { checks: { name: string; verdict: string }[] }
    expect(checks.filter((one) => one.verdict === 'error').map((one) => one.name)).toEqual(['service'])
    const names = checks.map((one) => one.name)
    for (const source of Object.keys(proposed.sources)) expect(names).toContain(`source ${source}`)
  })

  // A phone number in two columns is a comment of the proposal, which points to the example.
  test('finds at least 70% of the columns that the example fills, with their fields', () => {
    const found = new Set(mapped(proposed))
    const wanted = mapped(made)
    const missed = wanted.filter((one) => !found.has(one))
    expect(wanted.length).toBeGreaterThan(8)
    expect(
      (wanted.length - missed.length) / wanted.length,
      `missed ${missed.join(', ')}`,
    ).toBeGreaterThanOrEqual(0.7)
  })

  test('proposes the inputs of the example', () => {
    const inputs = (config: Config): Record<string, string[]> =>
      Object.fromEntries(
        Object.values(config.sources).map((source) => [
          `${source.kind} ${plain(source.table)}`,
          Object.keys(source.inputs).sort(),
        ]),
      )
    // A profile that the example only fills may be an input, too.
    for (const [source, names] of Object.entries(inputs(made)))
      expect([...names, 'linkedin_url']).toEqual(expect.arrayContaining(inputs(proposed)[source] ?? []))
    for (const [source, names] of Object.entries(inputs(made)))
      expect(inputs(proposed)[source]).toEqual(expect.arrayContaining(names))
  })

  test('excludes deleted rows, and proposes changedAt where it is indexed', () => {
    for (const source of Object.values(proposed.sources)) {
      const example = Object.values(made.sources).find(
        (one) => plain(one.table) === plain(source.table) && one.kind === source.kind,
      )
      expect(source.where).toMatch(/deleted|active/i)
      expect(source.changedAt).toBe(example?.changedAt ?? null)
    }
  })

  test('writes no key, generated column, foreign key as such, or typed input', async () => {
    for (const source of Object.values(proposed.sources))
      expect(await forbidden(database, source)).toEqual([])
  })
})

async function forbidden({ db, pool }: TestDatabase, source: SourceMapping): Promise<string[]> {
  const table = await readTable(db, source.table)
  if (table === null) throw new Error(`${source.table} is not there`)
  const { rows } = await pool.query<{ name: string }>(
    `select a.attname as name from pg_constraint k join pg_attribute a on a.attrelid = k.conrelid and a.attnum = any (k.conkey)
      where k.conrelid = $1::regclass and k.contype in ('f', 'p')`,
    [table.sql],
  )
  const keys = new Set(rows.map((row) => row.name))
  const made = new Set(
    table.columns.filter((one) => one.isGenerated || one.isIdentity).map((one) => one.name),
  )
  const expressions = Object.values(source.inputs)
  return source.outputs.flatMap(({ column, sql, policy }) => {
    const isInput = expressions.includes(`t.${column}`) || expressions.includes(`t."${column}"`)
    // A foreign key takes the key of the row that a sub-select finds.
    const isKey = (keys.has(column) || column.endsWith('_id')) && sql?.startsWith('(select') !== true
    return isKey || made.has(column) || (isInput && policy !== 'blank') ? [column] : []
  })
}
