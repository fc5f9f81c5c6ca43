import { type Output, padText, textWidth } from '../../cli/terminal.ts'
import { formatCount, formatPercent } from '../../util/format.ts'
import { renderTable } from '../../cli/views/layout.ts'

/** The filled cells of a source before and after the run, and the rows that could be filled. */
export interface FillRateChange {
  readonly source: string
  readonly eligible: { readonly before: number; readonly after: number }
  readonly columns: readonly { readonly column: string; readonly before: number; readonly after: number }[]
}

const BAR_WIDTH = 26

/** What was filled, column by column, with a bar for cells filled before, filled now, and still blank. */
export function fillRateChangeLines(all: readonly FillRateChange[], output: Output): string[] {
  const names = Math.max(
    ...all.flatMap(({ source, columns }) => [source, ...columns.map((one) => one.column)]).map(textWidth),
  )
  const share = (filled: number, rows: number): number => (rows === 0 ? 0 : filled / rows)
  return [
    ...all.flatMap(({ source, eligible, columns }) => [
      ...renderTable(
        output,
        columns.map(({ column, before, after }) => ({
          column,
          before: share(before, eligible.before),
          after: share(after, eligible.after),
          gained: after - before,
        })),
        [
          { title: padText(source, names), text: (line) => line.column },
          { title: 'before', text: (line) => formatPercent(line.before), number: true },
          { title: ' after', text: (line) => formatPercent(line.after), number: true },
          {
            title: 'filled',
            text: (line) => (line.gained === 0 ? '·' : `+${formatCount(line.gained)}`),
            number: true,
          },
          {
            title: `of ${formatCount(eligible.after)} rows`,
            text: (line) => gainBar(line.before, line.after),
            minColumns: 8,
          },
        ],
        { indent: 2 },
      ),
      '',
    ]),
    output.paint('quiet', `  ${BEFORE} filled before   ${GAINED} filled now   ${BLANK} still blank`),
  ]
}

const [BEFORE, GAINED, BLANK] = ['▓', '█', '░']

/** Uses different characters, so that it works without colour. */
function gainBar(before: number, after: number): string {
  const there = Math.round(before * BAR_WIDTH)
  const filled = Math.max(there, Math.round(after * BAR_WIDTH))
  return BEFORE.repeat(there) + GAINED.repeat(filled - there) + BLANK.repeat(BAR_WIDTH - filled)
}
