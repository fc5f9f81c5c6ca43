import type { Output } from '../../output.ts'
import { table } from '../../render/table.ts'
import { cut } from '../../render/text.ts'
import type { Example } from '../examples.ts'

const INDENT = '    '

/** Rows side by side, as they were and as they are. Blanks are shown as what they are, because they differ. */
export function exampleLines(examples: readonly Example[], output: Output): string[] {
  const { paint } = output
  const lines = examples.flatMap(({ cells }) =>
    cells.map(({ column, before, after }) => ({
      column,
      before: shown(before),
      after: shown(after),
      kept: before === after,
    })),
  )
  const [head = '', ...body] = table(
    lines,
    [
      { title: `${INDENT}column`, text: (line) => INDENT + line.column },
      { title: 'before', text: (line) => line.before, least: 8 },
      {
        title: 'after',
        text: (line) => (line.kept ? `${line.after}  (stays)` : line.after),
        least: 8,
        style: (line) => (line.kept ? null : 'good'),
      },
    ],
    output,
  )
  const edge = output.columns ?? Number.POSITIVE_INFINITY
  return [
    head,
    ...examples.flatMap(({ name, asked_by: askedBy, cells }) => [
      cut(`  ${paint('heading', name)}  ${paint('quiet', 'asked by')} ${shown(askedBy)}`, edge),
      ...body.splice(0, cells.length),
    ]),
  ]
}

/** In quotes where it could not be told from nothing, or has spaces at its ends. */
function shown(value: string | null): string {
  if (value === null) return 'NULL'
  return value === value.trim() && value !== '' && !/[\u200b\ufeff]/.test(value)
    ? value
    : JSON.stringify(value).replaceAll('\u00a0', '\\u00a0').replaceAll('\u200b', '\\u200b')
}
