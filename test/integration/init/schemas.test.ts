import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Proposal } from '../../../src/init/proposal.ts'
import { readTable } from '../../../src/sources/catalogue.ts'
import { openSource } from '../../../src/sources/source.ts'
import { useTestDatabase } from '../../support/database.ts'
import { createFolder, type InitFolder } from '../../support/init-folder.ts'
import { columnOf, createSchema, readExpectedSources, schemaNames } from '../../support/init-schemas.ts'
import { readConfig } from '../examples/example.ts'

describe.each(schemaNames)('init on %s', (name) => {
  const database = useTestDatabase()
  let folder: InitFolder
  let proposal: Proposal
  beforeAll(async () => {
    await createSchema(database.pool, name)
    folder = await createFolder(database.url)
    const { stdout } = await folder.init('--json')
    proposal = JSON.parse(stdout) as Proposal
  })
  afterAll(() => folder.remove())

  test('proposes the sources, inputs, outputs and conditions that a person expects', async () => {
    const found = proposal.sources.map(({ name: source, kind, table, inputs, outputs, conditions }) => {
      const offered = conditions.filter(({ state }) => state === 'offered')
      const lines = Map.groupBy(offered, ({ keep }) => columnOf(keep))
      return [
        source,
        {
          kind,
          table,
          inputs: Object.fromEntries(inputs.map(({ input, sql }) => [input, sql])),
          outputs: Object.fromEntries(
            outputs.map(({ column, field, map }) => [column, [field, ...Object.keys(map ?? {})].join(' | ')]),
          ),
          active: Object.fromEntries(
            conditions.filter(({ state }) => state === 'active').map(({ keep, leaves }) => [keep, leaves]),
          ),
          offered: Object.fromEntries([...lines].map(([column, some]) => [column, some.length])),
        },
      ] as const
    })
    expect(Object.fromEntries(found)).toEqual(await readExpectedSources(name))
  })

  test('counts for each condition the rows that it alone leaves out', async () => {
    for (const { table, conditions, counted } of proposal.sources) {
      expect(counted).toEqual({ rows: await database.count(table), of: 'table' })
      for (const { keep, leaves } of conditions)
        expect([keep, await database.count(`${table} t where not coalesce(${keep}, false)`)]).toEqual([
          keep,
          leaves,
        ])
    }
  })

  test('every boolean of a source is a condition, a column to fill or an input', async () => {
    for (const { table, conditions } of proposal.sources) {
      const columns = (await readTable(database.db, table))?.columns ?? []
      const shown = new Set(
        conditions.map(({ keep }) => columnOf(keep).replace(/^t\./, '').replaceAll('"', '')),
      )
      const missing = columns.filter(
        ({ name: column, type }) => type.fit.kind === 'boolean' && !shown.has(column),
      )
      expect({ table, missing: missing.map((column) => column.name) }).toEqual({ table, missing: [] })
    }
  })

  test('the file loads as proposed, and is valid for the database once a person has read it', async () => {
    const { sources } = await readConfig(folder.path)
    expect(Object.keys(sources)).toEqual(proposal.sources.map((source) => source.name))
    for (const { name: source, conditions } of proposal.sources) {
      const mapping = sources[source]
      if (mapping === undefined) throw new Error(`${source} is not in the file`)
      expect(mapping.reviewed).toBe(false)
      expect(mapping.where).toEqual(
        conditions.filter(({ state }) => state === 'active').map(({ keep }) => keep),
      )
      const opened = openSource(database.db, { ...mapping, reviewed: true })
      await expect(opened).resolves.toMatchObject({ name: source })
    }
  })

  test('plan reads the file', async () => {
    expect(await folder.run('plan', '--json')).toMatchObject({ code: 0 })
  })

  test('each commented condition can be taken into force', async () => {
    const path = join(folder.path, 'fillrate.config.ts')
    const text = await readFile(path, 'utf8')
    await writeFile(path, text.replaceAll(/^( +)\/\/ (['"].*['"], \/\/ leaves out )/gm, '$1$2'))
    const { sources } = await readConfig(folder.path)
    for (const { name: source, conditions } of proposal.sources) {
      const mapping = sources[source]
      expect(mapping?.where).toEqual(conditions.map(({ keep }) => keep))
      if (mapping !== undefined) await openSource(database.db, { ...mapping, reviewed: true })
    }
  })
})
