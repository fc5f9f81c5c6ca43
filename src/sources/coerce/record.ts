import { isObject, toPlainNumbers } from '../../domain/json.ts'
import { describeSkip, type SkippedCell } from '../../domain/skipped-cell.ts'
import { cleanText } from '../../domain/text.ts'
import { BLANK_CHARACTERS } from '../cell.ts'
import type { MappedOutput, Source } from '../source-model.ts'
import { coerced, notCoerced, toText, coerceValue, type Coercion } from './value.ts'

interface CoercedRecord {
  /** By configured output column: the value to write, or the raw field for an output with `sql`. */
  readonly values: Readonly<Record<string, unknown>>
  /** Every other output column, with what the record holds for it. */
  readonly skipped: readonly SkippedCell[]
}

/**
 * Coerces a record to a source's outputs. Pure: what only the database knows (constraints, triggers, the result
 * of an output's `sql`) is found at the write.
 * @param confidence 0..1, or null if the record has none: companies have none, and no bound applies to them
 */
export function coerceRecord(source: Source, record: unknown, confidence: number | null): CoercedRecord {
  const fitted = source.outputs.map((output) => {
    // Only what is written: most of a record is not.
    const found = cleanText(readField(record, output.mapping.field))
    return { output, found, fitting: coerceOutput(source, output, found, confidence) }
  })
  // A field that the record lacks keeps no group from being written.
  const obstacles = new Map<string | null, string>()
  for (const { output, fitting } of fitted)
    if (!fitting.ok && fitting.reason !== 'absent' && !obstacles.has(output.mapping.group))
      obstacles.set(output.mapping.group, `${output.column}: ${describeSkip(fitting)}`)
  const values: Record<string, unknown> = {}
  const skipped: SkippedCell[] = []
  for (const { output, found, fitting } of fitted) {
    const { column, mapping } = output
    const value = found ?? null
    if (!fitting.ok) skipped.push({ column, reason: fitting.reason, detail: fitting.detail, value })
    else if (mapping.group !== null && obstacles.has(mapping.group))
      skipped.push({
        column,
        reason: 'group_incomplete',
        detail: obstacles.get(mapping.group) ?? null,
        value,
      })
    else values[column] = fitting.value
  }
  return { values, skipped }
}

function coerceOutput(
  source: Source,
  output: MappedOutput,
  found: unknown,
  confidence: number | null,
): Coercion {
  const { mapping } = output
  if (isEmptyValue(found)) return notCoerced('absent')
  const bound = mapping.minConfidence ?? source.mapping.minConfidence
  if (confidence !== null && confidence < bound) return notCoerced('below_confidence', String(bound))
  return coerceField(output, found)
}

/** Coerces a field that is present: by `map`, `matches` and the column's type, in this order. */
function coerceField(output: MappedOutput, found: unknown): Coercion {
  const { mapping } = output
  const mapped = mapping.map === null ? coerced(found) : mapValue(found, mapping.map)
  if (!mapped.ok) return mapped
  if (mapping.matches !== null && !matches(mapped.value, mapping.matches)) return notCoerced('no_match')
  return mapping.sql === null ? coerceValue(mapped.value, output.fit) : mapped
}

/** The value at a dotted path. Also finds a field whose own name contains the dots. */
export function readField(record: unknown, path: string): unknown {
  if (!isObject(record)) return undefined
  if (Object.hasOwn(record, path)) return record[path]
  const dot = path.indexOf('.')
  if (dot === -1) return undefined
  const head = path.slice(0, dot)
  return Object.hasOwn(record, head) ? readField(record[head], path.slice(dot + 1)) : undefined
}

/** Nearly always the first character decides, and no list of them is made. */
function isBlankText(text: string): boolean {
  for (const character of text) if (!BLANK_CHARACTERS.includes(character)) return false
  return true
}

/** Blank values, which must not erase anything: null, white space, an empty array or object. */
function isEmptyValue(value: unknown): boolean {
  if (value === null || value === undefined) return true
  if (typeof value === 'string') return isBlankText(value)
  if (Array.isArray(value)) return (value as unknown[]).every(isEmptyValue)
  return isObject(value) && Object.keys(value).length === 0
}

/** Maps each element of an array; elements without an entry are dropped. */
function mapValue(value: unknown, map: Readonly<Record<string, string | number | boolean>>): Coercion {
  if (Array.isArray(value)) {
    const mapped = (value as unknown[]).map((item) => mapValue(item, map)).filter((item) => item.ok)
    return mapped.length > 0 ? coerced(mapped.map((item) => item.value)) : notCoerced('unmapped')
  }
  // `1.0` is looked up as `1`, unless the map has an entry for it.
  const texts = [toText(value), toText(toPlainNumbers(value))]
  const text = texts.find((text) => text !== null && Object.hasOwn(map, text))
  return typeof text === 'string' ? coerced(map[text]) : notCoerced('unmapped')
}

/** An array matches if each of its elements does. */
function matches(
  value: unknown,
  { source, flags }: { readonly source: string; readonly flags: string },
): boolean {
  const pattern = new RegExp(source, flags.replace(/[gy]/g, ''))
  const items = Array.isArray(value) ? (value as unknown[]) : [value]
  return items.every((item) => pattern.test(toText(item) ?? JSON.stringify(item)))
}
