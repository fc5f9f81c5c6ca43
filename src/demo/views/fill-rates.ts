import type { FillCounts } from '../../sources/fill-counts.ts'
import { type Output, padText, textWidth } from '../../cli/terminal.ts'
import { formatCount, formatPercent } from '../../util/format.ts'
import { renderTable } from '../../cli/views/layout.ts'

/** The fill rates of a source before and after the run. */
export interface FillRateChange {
  readonly source: string
  readonly before: FillCounts
  readonly after: FillCounts
}

interface FillRateLine {
  readonly column: string
  readonly before: number
  readonly after: number
  readonly gained: number
}

const BAR_WIDTH = 26

/** What was filled, column by column, with a bar for cells filled before, filled now, and still blank. */
export function fillRateChangeLines(all: readonly FillRateChange[], output: Output): string[] {
  const names = Math.max(
    ...all.flatMap(({ source, after }) => [source, ...after.columns.map((one) => one.column)]).map(textWidth),
  )
  return [
    ...all.flatMap((one) => [
      ...renderTable(
        toTableLines(one),
        [
          { title: `  ${padText(one.source, names)}`, text: (line) => `  ${line.column}` },
          { title: 'before', text: (line) => formatPercent(line.before), number: true },
          { title: ' after', text: (line) => formatPercent(line.after), number: true },
          {
            title: 'filled',
            text: (line) => (line.gained === 0 ? '·' : `+${formatCount(line.gained)}`),
            number: true,
          },
          { title: `of ${formatCount(one.after.eligible)} rows`, text: gainBar, minColumns: 8 },
        ],
        output,
      ),
      '',
    ]),
    output.paint('quiet', `  ${BEFORE} filled before   ${GAINED} filled now   ${BLANK} still blank`),
  ]
}

const toTableLines = ({ before, after }: FillRateChange): FillRateLine[] =>
  after.columns.map(({ column, filled }, n) => {
    const was = before.columns[n]?.filled ?? 0
    return {
      column,
      before: before.eligible === 0 ? 0 : was / before.eligible,
      after: after.eligible === 0 ? 0 : filled / after.eligible,
      gained: filled - was,
    }
  })

const [BEFORE, GAINED, BLANK] = ['▓', '█', '░']

/** Uses different characters, so that it works without colour. */
function gainBar({ before, after }: FillRateLine): string {
  const there = Math.round(before * BAR_WIDTH)
  const filled = Math.max(there, Math.round(after * BAR_WIDTH))
  return BEFORE.repeat(there) + GAINED.repeat(filled - there) + BLANK.repeat(BAR_WIDTH - filled)
}
