import { toSourceConfig } from './config-object.ts'
import type { AcceptedSource } from './verify.ts'

/** Stands for the schema in the texts of a source that several schemas share: a character of private use, which no name has. */
export const SCHEMA_MARK = '\uE000'

/** The sources that are the same in several schemas, with `SCHEMA_MARK` in place of the schema's name. */
export interface RepeatedSources {
  /** The name of the function that makes them: `peopleOf`. */
  readonly name: string
  readonly schemas: readonly string[]
  readonly sources: readonly AcceptedSource[]
}

/**
 * Tells what schemas with the same tables have in common, as those of the tenants of a product: what is equal but for the
 * schema's name is written once. The rest, such as what an older schema lacks, is written as it is. Pure.
 */
export function groupRepeated(accepted: readonly AcceptedSource[]): {
  readonly repeated: readonly RepeatedSources[]
  readonly others: readonly AcceptedSource[]
} {
  const marked = accepted.flatMap((one) => {
    const schema = schemaOf(one)
    if (schema === null) return []
    const source = markSchema(one, schema)
    return [
      { one, schema, source, form: JSON.stringify([source.source.name, toSourceConfig(source.source)]) },
    ]
  })
  const equal = [...Map.groupBy(marked, ({ form }) => form).values()].filter((same) => same.length > 1)
  const bySchemas = Map.groupBy(equal, (same) =>
    same
      .map(({ schema }) => schema)
      .toSorted()
      .join(),
  )
  const shared = new Set(equal.flat().map(({ one }) => one))
  return {
    repeated: [...bySchemas].map(([schemas, sets]) => {
      const sources = sets.flatMap(([first]) => first?.source ?? [])
      return { name: functionName(sources[0]), schemas: schemas.split(','), sources }
    }),
    others: accepted.filter((one) => !shared.has(one)),
  }
}

const functionName = (first: AcceptedSource | undefined): string => {
  const words = (first?.source.name ?? '').split(/[^A-Za-z0-9]+/).filter((word) => word !== '')
  const [head = 'sources', ...rest] = words
  return `${head}${rest.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join('')}Of`
}

/** The schema that a source's table and name both begin with; null if it is in the search path. */
function schemaOf({ source }: AcceptedSource): string | null {
  const [schema, table] = source.table.split('.')
  return schema !== undefined && table !== undefined && source.name.startsWith(`${schema}_`) ? schema : null
}

/** The same source with the mark in place of its schema, in its name and its SQL. */
function markSchema(one: AcceptedSource, schema: string): AcceptedSource {
  const pattern = new RegExp(`(?<![A-Za-z0-9_])${schema.replaceAll(/\W/g, String.raw`\$&`)}(?=[._])`, 'g')
  const marked = JSON.parse(JSON.stringify(one.source), (_, value: unknown) =>
    typeof value === 'string' ? value.replaceAll(pattern, SCHEMA_MARK) : value,
  ) as AcceptedSource['source']
  return { ...one, source: marked }
}
