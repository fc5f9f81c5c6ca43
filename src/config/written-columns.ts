import type { z } from 'zod'
import type { SourceMapping } from '../domain/mapping.ts'
import { listOutputs } from './turns.ts'

type GroupedOutput = string | { readonly field: string; readonly group?: string | null }

interface MappedColumns extends Pick<SourceMapping, 'key' | 'touch'> {
  readonly outputs: Readonly<
    Record<string, GroupedOutput | Readonly<Record<string, GroupedOutput | undefined>>>
  >
  readonly freshness: { readonly column?: string | undefined; readonly read?: string | undefined } | null
}

/**
 * Checks the outputs of a source against each other, without the database: a column that is listed twice, is part of
 * another output, belongs to the key, or is also set by `touch`; a group of one.
 */
export function checkOutputs(source: MappedColumns, context: z.core.$RefinementCtx): void {
  const reject = (path: readonly string[], found: string, expected: string, todo?: string) =>
    context.addIssue({ code: 'custom', path: [...path], message: expected, params: { found, todo } })
  const columns = Object.keys(source.outputs)
  if (columns.length === 0) reject(['outputs'], 'an empty object', 'at least one column to fill')

  const byPath = new Map<string, string>()
  for (const column of columns) {
    const path = toColumnPath(column)
    const twin = byPath.get(path.join('\0'))
    if (twin !== undefined) {
      reject(['outputs', column], `a column that is already listed, as ${twin}`, 'each column once')
    }
    byPath.set(path.join('\0'), column)
  }
  for (const column of columns) {
    const path = toColumnPath(column)
    const prefixes = path.slice(1).map((_, index) => path.slice(0, index + 1).join('\0'))
    const whole = prefixes.map((prefix) => byPath.get(prefix)).find((output) => output !== undefined)
    if (whole !== undefined) {
      const found = `a key inside ${whole}, which is an output as a whole`
      reject(['outputs', column], found, 'either the column or keys inside it')
    }
  }

  const keys = (source.key ?? []).map(unquoteName)
  for (const column of columns) {
    if (keys.includes(toColumnPath(column)[0] ?? '')) {
      reject(['outputs', column], 'a column of the key', 'a column that does not identify the row')
    }
  }
  for (const column of Object.keys(source.touch)) {
    const name = unquoteName(column)
    if (keys.includes(name))
      reject(['touch', column], 'a column of the key', 'a column that does not identify the row')
    if (columns.some((output) => toColumnPath(output)[0] === name)) {
      reject(
        ['touch', column],
        'a column that is an output too',
        'a column of its own',
        'Remove it from `touch` or from `outputs`.',
      )
    }
  }
  const { column: stamp, read } = source.freshness ?? {}
  if (source.freshness !== null && (stamp === undefined) === (read === undefined))
    reject(
      ['freshness'],
      stamp === undefined ? 'an empty object' : 'both `column` and `read`',
      'a `column` that each write sets, or a `read` expression',
    )
  else if (stamp !== undefined) checkFreshness(source, stamp, keys, reject)
  const groups = Object.entries(source.outputs).flatMap(([column, output]) =>
    listOutputs(output).flatMap(([path, one]) =>
      typeof one === 'string' || typeof one.group !== 'string' ? [] : [{ column, path, group: one.group }],
    ),
  )
  for (const { column, path, group } of groups)
    if (groups.every((other) => other.group !== group || other.column === column))
      reject(
        ['outputs', column, ...path, 'group'],
        `'${group}', which no other output has`,
        'a group of two outputs or more',
      )
}

/** What gives the time of the write, in any of SQL's spellings. */
const CURRENT_TIME =
  /\b(?:now\s*\(|current_timestamp\b|localtimestamp\b|current_date\b|(?:transaction|statement|clock)_timestamp\s*\()/i

/** The stamp is written with each write, so nothing else may write it; `touch` may say how. */
function checkFreshness(
  { outputs, touch }: MappedColumns,
  column: string,
  keys: readonly string[],
  reject: (path: readonly string[], found: string, expected: string, todo?: string) => void,
): void {
  const path = ['freshness', 'column']
  const stamp = toColumnPath(column)
  const overlaps = (other: string): boolean =>
    toColumnPath(other).every((part, depth) => depth >= stamp.length || part === stamp[depth])
  const output = Object.keys(outputs).find(overlaps)
  if (output !== undefined)
    reject(
      path,
      `'${column}', which the output ${output} fills`,
      'a column of its own, which no output fills',
    )
  if (keys.includes(stamp[0] ?? ''))
    reject(path, 'a column of the key', 'a column that does not identify the row')
  const touched = Object.keys(touch).find((other) => toColumnPath(other).join('\0') === stamp.join('\0'))
  if (touched === undefined || CURRENT_TIME.test(touch[touched] ?? '')) return
  reject(
    ['touch', touched],
    `'${touch[touched]}', and \`freshness\` names the same column`,
    'the time of the write, such as now()',
    'Remove it from `touch`: `freshness` sets the column with every write.',
  )
}

/** `attributes."a.b"` → `attributes`, `a.b`. */
function toColumnPath(column: string): string[] {
  return [...column.matchAll(/"(?:[^"]|"")*"|[^."]+/g)].map(([segment]) => unquoteName(segment.trim()))
}

function unquoteName(name: string): string {
  return /^".*"$/s.test(name) ? name.slice(1, -1).replaceAll('""', '"') : name
}
