import { relative } from 'node:path'
import {
  type KyselyConfig,
  type KyselyPlugin,
  type QueryId,
  Kysely as PlainKysely,
  type RawBuilder,
  sql as plainSql,
  type Sql,
} from '../../node_modules/kysely/dist/index.js'
import { findMismatches, ROOT } from './result-types.ts'
import { readCachedTypes } from './result-types-setup.ts'

// In place of `kysely` in tests on Postgres: the rows of each statement of `src` are held against the type that it gives them.

export * from '../../node_modules/kysely/dist/index.js'

const types = readCachedTypes()?.types ?? {}

/** Where a template stands, `src/store/rows.ts:49`: its texts are one object, however often it is used. */
const places = new WeakMap<readonly string[], string>()

export const sql: Sql = Object.assign(
  <Row>(texts: TemplateStringsArray, ...values: unknown[]): RawBuilder<Row> => {
    if (!places.has(texts)) places.set(texts, findPlace())
    return plainSql<Row>(texts, ...values)
  },
  plainSql,
)

function findPlace(): string {
  const [, file = ROOT, line] =
    /(?:\n[^\n]*){2}\n[^\n]*?(\/[^\n(]*?\.ts):(\d+)/.exec(new Error('here').stack ?? '') ?? []
  return `${relative(ROOT, file)}:${line}`
}

const queries = new WeakMap<QueryId, string>()
const checkRows: KyselyPlugin = {
  transformQuery({ node, queryId }) {
    if (node.kind === 'RawNode') queries.set(queryId, places.get(node.sqlFragments) ?? '')
    return node
  },
  transformResult({ queryId, result }) {
    const place = queries.get(queryId) ?? ''
    const shape = types[place] ?? null
    const wrong = new Set(result.rows.slice(0, 20).flatMap((row) => findMismatches(shape, row)))
    if (wrong.size > 0) throw new Error(`The result at ${place} is not of its type: ${[...wrong].join('; ')}`)
    return Promise.resolve(result)
  },
}

export class Kysely<Tables> extends PlainKysely<Tables> {
  constructor({ plugins = [], ...config }: KyselyConfig) {
    super({ ...config, plugins: [...plugins, checkRows] })
  }
}
