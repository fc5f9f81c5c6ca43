import { POLICY_RULES } from '../../domain/mapping.ts'
import { postgresArray } from '../../util/postgres-array.ts'
import { renderExpression } from '../expression.ts'
import { toText } from '../coerce/scalars.ts'
import { quoteLiteral, quoteName } from '../quote.ts'
import type { MappedOutput, Source } from '../source-model.ts'

/** A row to write. */
export interface BatchRow {
  /** Its index in the batch. */
  readonly index: number
  readonly key: string
  readonly hash: string
  /** Output column to value. */
  readonly values: Readonly<Record<string, unknown>>
  /** Output column to what Fillrate last wrote. */
  readonly lastWritten: Readonly<Record<string, unknown>>
  /** The same of what it wrote for earlier inputs; null: nothing. */
  readonly earlier: Readonly<Record<string, unknown>> | null
  /** The record's confidence. */
  readonly confidence: number | null
  /** Touched columns to leave as they are; only the variant `apart` reads it. */
  readonly without?: readonly string[]
}

/**
 * Whether the values of an output are sent as jsonb: where the database makes something else of them than a cast of their
 * text. An expression may use them as both.
 */
export const isSentAsJson = ({ mapping, fit }: MappedOutput): boolean =>
  mapping.sql !== null || fit.kind === 'json' || fit.kind === 'jsonb' || fit.kind === 'array'

/** Whether a cell may be taken over from earlier inputs. */
export const readsEarlier = (source: Source): boolean =>
  source.outputs.some(({ mapping }) => POLICY_RULES[mapping.policy].readsEarlier)

/** Whether a cell is compared with what was last written. */
export const readsLastWritten = (source: Source): boolean =>
  source.outputs.some(({ mapping }) => POLICY_RULES[mapping.policy].readsLastWritten)

const readsConfidence = (source: Source): boolean =>
  [...source.outputs.map(({ mapping }) => mapping.sql), ...source.touches.map(({ expression }) => expression)]
    .filter((expression) => expression !== null)
    .some((expression) => renderExpression(expression, { confidence: '' }).sql !== expression)

interface BatchColumn {
  readonly name: string
  readonly type: 'integer' | 'text' | 'jsonb' | 'double precision'
  readonly of: (row: BatchRow) => unknown
  /** SQL for it over the variant in JSON. */
  readonly fromJson: string
}

/** The columns of `~batch`. */
function batchColumns(source: Source): BatchColumn[] {
  const values = source.outputs.map((output, n): BatchColumn => {
    const name = `~value${n}`
    const column = quoteLiteral(output.column)
    return isSentAsJson(output)
      ? {
          name,
          type: 'jsonb',
          of: ({ values }) => values[output.column],
          fromJson: `nullif("values" -> ${column}, 'null')`,
        }
      : {
          name,
          type: 'text',
          of: ({ values }) => textOf(values[output.column]),
          fromJson: `"values" ->> ${column}`,
        }
  })
  return [
    { name: '~row', type: 'integer', of: ({ index }) => index, fromJson: 'index' },
    { name: '~key', type: 'text', of: ({ key }) => key, fromJson: 'key' },
    { name: '~hash', type: 'text', of: ({ hash }) => hash, fromJson: 'hash' },
    ...values,
    ...(readsLastWritten(source)
      ? [
          {
            name: '~last written',
            type: 'jsonb',
            of: ({ lastWritten }) => (Object.keys(lastWritten).length > 0 ? lastWritten : null),
            fromJson: '"lastWritten"',
          } satisfies BatchColumn,
        ]
      : []),
    ...(readsEarlier(source)
      ? [
          {
            name: '~earlier',
            type: 'jsonb',
            of: ({ earlier }) => earlier,
            fromJson: `nullif(earlier, 'null')`,
          } satisfies BatchColumn,
        ]
      : []),
    ...(readsConfidence(source)
      ? [
          {
            name: '~confidence',
            type: 'double precision',
            of: ({ confidence }) => confidence,
            fromJson: 'confidence',
          } satisfies BatchColumn,
        ]
      : []),
  ]
}

const textOf = (value: unknown): string | null =>
  value === null || value === undefined ? null : (toText(value) ?? JSON.stringify(value))

/**
 * SQL for the batch's rows, `b`, from the parameters that `batchParameters` gives. Sub-selects hide the arrays' length from the
 * planner: by it, two thousand rows of a table ten times as large were found by reading all of it.
 */
export function batchSql(source: Source): string {
  const columns = batchColumns(source)
  const arrays = columns.map(
    ({ name, type }, n) => `unnest((select $${n + 1}::${type}[])) as ${quoteName(name)}`,
  )
  return `(select ${arrays.join(', ')}) as b`
}

/** An array for each column: nothing is escaped and parsed, and no object is searched for each value. */
export const batchParameters = (source: Source, rows: readonly BatchRow[]): Buffer[] =>
  batchColumns(source).map(({ type, of }) => postgresArray(type, rows.map(of)))

/** SQL for the same from a JSON array of rows, `$1`, which PL/pgSQL can take apart. Also has `without`. */
export function batchFromJsonSql(source: Source): string {
  const columns = batchColumns(source).map(({ name, fromJson }) => `${fromJson} as ${quoteName(name)}`)
  return `(select ${columns.join(', ')}, without as "~without"
              from jsonb_to_recordset($1::jsonb) as b(index int, key text, hash text, "values" jsonb, "lastWritten" jsonb, earlier jsonb, confidence double precision, without jsonb)) as b`
}

interface BatchSql {
  /** SQL for the rows' indexes and keys alone, `"~batch"`. */
  readonly keys: string
  /** SQL for the number of rows. */
  readonly length: string
}

export const BATCH_IN_ARRAYS: BatchSql = {
  keys: `(select unnest((select $1::integer[])) as "~row", unnest((select $2::text[])) as "~key") as "~batch"`,
  length: 'cardinality($1::integer[])',
}

export const BATCH_IN_JSON: BatchSql = {
  keys: `(select index as "~row", key as "~key" from jsonb_to_recordset($1::jsonb) as b(index int, key text)) as "~batch"`,
  length: 'jsonb_array_length($1::jsonb)',
}
