import type { ProposedOutput, ProposedSource } from '../../init/proposal.ts'
import { formatPercent } from '../../util/format.ts'
import { sanitize } from '../terminal.ts'
import type { AcceptedSource } from '../../init/verify.ts'
import { commentLines, LINE_WIDTH } from './comment.ts'
import { keyLiteral, objectLiteral, packedLiteral, textLiteral } from '../../init/literal.ts'

/** One output of a source, with its fill rate and notes. Pure. */
export function outputConfigLines(
  output: ProposedOutput,
  { source, coverage }: AcceptedSource,
  at: string,
): string[] {
  const { column, field, map, sql, as, group } = output
  const filled = coverage?.columns.find((one) => one.column === column)?.filled
  const note = [
    ...(filled === undefined || coverage === null
      ? []
      : [`${formatPercent(coverage.eligible === 0 ? 0 : filled / coverage.eligible)} filled`]),
    sanitize(output.type),
  ].join(', ')
  const entries: Array<readonly [string, string]> = [['field', textLiteral(field)]]
  if (map)
    entries.push([
      'map',
      packedLiteral(
        Object.entries(map).map(([from, to]) => [from, textLiteral(to)] as const),
        `${at}  `,
        LINE_WIDTH,
      ),
    ])
  if (sql !== undefined) entries.push(['sql', textLiteral(sql)])
  if (as) entries.push(['as', textLiteral(as)])
  if (group !== undefined) entries.push(['group', textLiteral(group)])
  const value = entries.length === 1 ? textLiteral(field) : objectLiteral(entries, at, LINE_WIDTH)
  const line = `${at}${keyLiteral(column)}: ${value},`
  const said = outputComment(output, source)
  const fits = !line.includes('\n') && line.length + note.length + 4 <= LINE_WIDTH + 10
  return fits
    ? [...commentLines(said, at), `${line} // ${note}`]
    : [...commentLines(`${note}.${said === '' ? '' : ` ${said}`}`, at), line]
}

/** An explanation at the first occurrence of an unusual option. */
function outputComment(output: ProposedOutput, { outputs }: ProposedSource): string {
  const isFirst = (test: (one: ProposedOutput) => boolean): boolean => outputs.find(test) === output
  if (output.map && isFirst((one) => one.map !== undefined))
    return 'Maps the service’s values to those the column accepts; others are skipped.'
  if (output.group !== undefined && isFirst((one) => one.group === output.group))
    return 'Written together, or not at all.'
  return ''
}
