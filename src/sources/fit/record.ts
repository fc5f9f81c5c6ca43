import { cleanText } from '../../domain/clean-text.ts'
import { isObject, withPlainNumbers } from '../../domain/json.ts'
import { BLANKS } from '../blanks.ts'
import type { Output, Source } from '../mapped.ts'
import { isNumeric } from './number.ts'
import { fits, misfit, type Fitting, type Misfit } from './outcome.ts'
import { toText } from './text.ts'
import { fitValue } from './value.ts'

export interface Fitted {
  /** By output column as configured: the value to be written, or the field as it came for an output with `sql`. */
  readonly values: Readonly<Record<string, unknown>>
  readonly skipped: ReadonlyArray<{ readonly column: string; readonly reason: Misfit }>
}

/**
 * Fits a record to a source's outputs. Pure: what only the database can say (a check, a unique value, a trigger,
 * what an output's `sql` makes of it) is found at the write.
 * @param confidence 0..1, or null where the record has none: companies have none, and no bound is held against it
 */
export function fitRecord(source: Source, record: unknown, confidence: number | null): Fitted {
  const clean = cleanText(record)
  const fitted = source.outputs.map((output) => ({
    output,
    fitting: fitOutput(source, output, clean, confidence),
  }))
  const broken = new Set(
    fitted.filter(({ fitting }) => !fitting.ok).map(({ output }) => output.mapping.group),
  )
  const values: Record<string, unknown> = {}
  const skipped: Array<{ column: string; reason: Misfit }> = []
  for (const { output, fitting } of fitted) {
    const { column, mapping } = output
    if (!fitting.ok) skipped.push({ column, reason: fitting.reason })
    else if (mapping.group !== null && broken.has(mapping.group))
      skipped.push({ column, reason: 'group_incomplete' })
    else values[column] = fitting.value
  }
  return { values, skipped }
}

function fitOutput(source: Source, output: Output, record: unknown, confidence: number | null): Fitting {
  const { mapping } = output
  const found = fieldOf(record, mapping.field)
  if (isNothing(found)) return misfit('absent')
  const bound = mapping.minConfidence ?? source.mapping.minConfidence
  if (confidence !== null && confidence < bound) return misfit('below_confidence')
  const mapped = mapping.map === null ? fits(found) : mapValue(found, mapping.map)
  if (!mapped.ok) return mapped
  if (mapping.matches !== null && !matches(mapped.value, mapping.matches)) return misfit('no_match')
  if (mapping.sql !== null)
    return output.value === 'number' && !isNumeric(mapped.value) ? misfit('not_a_number') : mapped
  if (mapping.as === 'json' && output.fit.kind === 'text')
    return fitValue(JSON.stringify(mapped.value), output.fit, 'skip')
  return fitValue(mapped.value, output.fit, mapping.tooLong)
}

/** The value at a dotted path. A field whose own name holds the dots is found too. */
export function fieldOf(record: unknown, path: string): unknown {
  if (!isObject(record)) return undefined
  if (Object.hasOwn(record, path)) return record[path]
  const dot = path.indexOf('.')
  if (dot === -1) return undefined
  const head = path.slice(0, dot)
  return Object.hasOwn(record, head) ? fieldOf(record[head], path.slice(dot + 1)) : undefined
}

/** What a record holds in place of a value, and must erase none: null, white space, an empty array or object. */
function isNothing(value: unknown): boolean {
  if (value === null || value === undefined) return true
  if (typeof value === 'string') return [...value].every((character) => BLANKS.includes(character))
  if (Array.isArray(value)) return (value as unknown[]).every(isNothing)
  return isObject(value) && Object.keys(value).length === 0
}

/** Of an array each element is mapped, and those without an entry are left out. */
function mapValue(value: unknown, map: Readonly<Record<string, string | number | boolean>>): Fitting {
  if (Array.isArray(value)) {
    const mapped = (value as unknown[]).map((item) => mapValue(item, map)).filter((item) => item.ok)
    return mapped.length > 0 ? fits(mapped.map((item) => item.value)) : misfit('unmapped')
  }
  // `1.0` is mapped as `1`, unless the map says otherwise.
  const texts = [toText(value), toText(withPlainNumbers(value))]
  const text = texts.find((one) => one !== null && Object.hasOwn(map, one))
  return typeof text === 'string' ? fits(map[text]) : misfit('unmapped')
}

/** An array matches when each of its elements does. */
function matches(
  value: unknown,
  { source, flags }: { readonly source: string; readonly flags: string },
): boolean {
  const pattern = new RegExp(source, flags.replace(/[gy]/g, ''))
  const items = Array.isArray(value) ? (value as unknown[]) : [value]
  return items.every((item) => pattern.test(toText(item) ?? JSON.stringify(item)))
}
