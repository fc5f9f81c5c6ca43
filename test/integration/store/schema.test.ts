import { expect, test } from 'vitest'
import { useTestDatabase } from '../../support/database.ts'
import { readInterface, type ValueShape } from '../../support/result-types.ts'

// The builder believes `schema.ts`: here it is held against the schema that the migrations make.

const database = useTestDatabase()

const KINDS: Readonly<Record<string, string>> = {
  int2: 'number',
  int4: 'number',
  int8: 'number',
  float8: 'number',
  // Of credits. The driver reads it as text: each statement casts it.
  numeric: 'number',
  text: 'string',
  uuid: 'string',
  date: 'Date',
  bool: 'boolean',
  timestamptz: 'Date',
  bytea: 'Buffer',
  json: 'object',
  jsonb: 'object',
}

/** Hashes of 64 bits are beyond the numbers of JavaScript. */
const READ_AS_TEXT = /\.input_hash$/

/** By column: `number | null, optional`, what it holds and whether an insert needs it. */
async function readColumns(): Promise<Record<string, string>> {
  const rows = await database.query<{
    name: string
    type: string
    nullable: boolean
    filled: boolean
    generated: boolean
  }>(`
    select table_schema || '.' || table_name || '.' || column_name as name, udt_name as type,
           is_nullable = 'YES' as nullable, is_generated = 'ALWAYS' as generated,
           is_nullable = 'YES' or column_default is not null or is_identity = 'YES' as filled
      from information_schema.columns
     where table_schema = 'fillrate' and table_name not like 'migrations%'`)
  return Object.fromEntries(
    rows.map(({ name, type, nullable, filled, generated }) => {
      const kind = READ_AS_TEXT.test(name) ? 'string' : type.startsWith('_') ? 'array' : (KINDS[type] ?? type)
      const insert = generated ? 'never' : filled ? 'optional' : 'required'
      return [name, describe(nullable ? [kind, 'null'] : [kind], insert)]
    }),
  )
}

const describe = (kinds: readonly string[], insert: string): string =>
  `${kinds.toSorted((a, b) => Number(a === 'null') - Number(b === 'null')).join(' | ')}, ${insert}`

function describeShape(shape: ValueShape): string {
  const kinds = new Set(shape?.kinds)
  const { __select__: select, __insert__: insert } = shape?.properties ?? {}
  if (select) {
    kinds.delete('object')
    for (const kind of select.kinds) kinds.add(kind)
  }
  const isOptional = insert?.kinds.includes('undefined') === true || kinds.has('null')
  const isNever = insert?.kinds.includes('never') === true
  return describe([...kinds], isNever ? 'never' : isOptional ? 'optional' : 'required')
}

test('each column of schema.ts is in the schema, with its type, and whether it may be null or left out', async () => {
  const declared = Object.entries(readInterface('src/store/open.ts', 'Schema')?.properties ?? {}).flatMap(
    ([table, shape]) =>
      Object.entries(shape?.properties ?? {}).map(([column, one]) => [
        `${table}.${column}`,
        describeShape(one),
      ]),
  )
  expect(declared.length).toBeGreaterThan(40)
  expect(await readColumns()).toMatchObject(Object.fromEntries(declared))
})
