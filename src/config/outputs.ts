import type { z } from 'zod'

interface Mapped {
  readonly key?: string | readonly string[] | undefined
  readonly outputs: Readonly<Record<string, string | { readonly group?: string | undefined }>>
  readonly touch?: Readonly<Record<string, string>> | undefined
}

/**
 * What can be wrong between the outputs of one source, seen without the database: a column that is listed
 * twice, that another output holds as a whole, that is the key, or that `touch` sets too; a group of one.
 */
export function checkOutputs(source: Mapped, context: z.core.$RefinementCtx): void {
  const refuse = (path: readonly string[], found: string, expected: string, todo?: string) =>
    context.addIssue({ code: 'custom', path: [...path], message: expected, params: { found, todo } })
  const columns = Object.keys(source.outputs)
  if (columns.length === 0) refuse(['outputs'], 'an empty object', 'at least one column to fill')

  const byPath = new Map<string, string>()
  for (const column of columns) {
    const path = columnPath(column)
    const twin = byPath.get(path.join('\0'))
    if (twin !== undefined) {
      refuse(['outputs', column], `a column that is listed already, as ${twin}`, 'each column once')
    }
    byPath.set(path.join('\0'), column)
  }
  for (const column of columns) {
    const path = columnPath(column)
    const prefixes = path.slice(1).map((_, index) => path.slice(0, index + 1).join('\0'))
    const whole = prefixes.map((prefix) => byPath.get(prefix)).find((output) => output !== undefined)
    if (whole !== undefined) {
      const found = `a key inside ${whole}, which is an output as a whole`
      refuse(['outputs', column], found, 'either the column or keys inside it')
    }
  }

  const keys = source.key === undefined ? [] : [source.key].flat().map(unquote)
  for (const column of columns) {
    if (keys.includes(columnPath(column)[0] ?? '')) {
      refuse(['outputs', column], 'a column of the key', 'a column that does not identify the row')
    }
  }
  for (const column of Object.keys(source.touch ?? {})) {
    const name = unquote(column)
    if (keys.includes(name))
      refuse(['touch', column], 'a column of the key', 'a column that does not identify the row')
    if (columns.some((output) => columnPath(output)[0] === name)) {
      refuse(
        ['touch', column],
        'a column that is an output too',
        'a column of its own',
        'Take it out of `touch` or out of `outputs`.',
      )
    }
  }
  for (const [column, output] of Object.entries(source.outputs)) {
    const group = typeof output === 'string' ? undefined : output.group
    const members = Object.values(source.outputs).filter(
      (other) => typeof other !== 'string' && other.group === group,
    )
    if (group !== undefined && members.length === 1) {
      refuse(
        ['outputs', column, 'group'],
        `'${group}', which no other output has`,
        'a group of two outputs or more',
      )
    }
  }
}

/** `attributes."a.b"` → `attributes`, `a.b`. */
function columnPath(column: string): string[] {
  return [...column.matchAll(/"(?:[^"]|"")*"|[^."]+/g)].map(([segment]) => unquote(segment.trim()))
}

function unquote(name: string): string {
  return /^".*"$/s.test(name) ? name.slice(1, -1).replaceAll('""', '"') : name
}
