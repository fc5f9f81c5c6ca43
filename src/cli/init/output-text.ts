import type { ProposedOutput, ProposedSource } from '../../sources/propose/proposal.ts'
import { percent } from '../../domain/numbers.ts'
import { clean } from '../render/text.ts'
import type { Accepted } from './accept.ts'
import { comment, WIDTH } from './comment.ts'
import { keyLiteral, objectLiteral, packedLiteral, textLiteral } from './literal.ts'

/** One output of a source, with how full its column is and what is unusual about it. Pure. */
export function outputLines(output: ProposedOutput, { source, coverage }: Accepted, at: string): string[] {
  const { column, field, map, sql, as, group } = output
  const filled = coverage?.columns.find((one) => one.column === column)?.filled
  const note = [
    ...(filled === undefined || coverage === null
      ? []
      : [`${percent(coverage.eligible === 0 ? 0 : filled / coverage.eligible)} filled`]),
    clean(output.type),
  ].join(', ')
  const entries: Array<readonly [string, string]> = [['field', textLiteral(field)]]
  if (map)
    entries.push([
      'map',
      packedLiteral(
        Object.entries(map).map(([from, to]) => [from, textLiteral(to)] as const),
        `${at}  `,
        WIDTH,
      ),
    ])
  if (sql !== undefined) entries.push(['sql', textLiteral(sql)])
  if (as) entries.push(['as', textLiteral(as)])
  if (group !== undefined) entries.push(['group', textLiteral(group)])
  const value = entries.length === 1 ? textLiteral(field) : objectLiteral(entries, at, WIDTH)
  const line = `${at}${keyLiteral(column)}: ${value},`
  const said = introduction(output, source)
  const fits = !line.includes('\n') && line.length + note.length + 4 <= WIDTH + 10
  return fits
    ? [...comment(said, at), `${line} // ${note}`]
    : [...comment(`${note}.${said === '' ? '' : ` ${said}`}`, at), line]
}

/** What is unusual about an output, told where it first occurs. */
function introduction(output: ProposedOutput, { outputs }: ProposedSource): string {
  const isFirst = (test: (one: ProposedOutput) => boolean): boolean => outputs.find(test) === output
  if (output.map && isFirst((one) => one.map !== undefined))
    return 'The service’s values to those that the column knows; any other is skipped.'
  if (output.group !== undefined && isFirst((one) => one.group === output.group))
    return 'Written together or not at all.'
  return ''
}
