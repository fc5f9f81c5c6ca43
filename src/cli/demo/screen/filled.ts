import type { Coverage } from '../../../sources/coverage.ts'
import type { Output } from '../../output.ts'
import { count, percent } from '../../../domain/numbers.ts'
import { pad, width } from '../../render/text.ts'
import { table } from '../../render/table.ts'

/** The coverage of a source when the run began and when it had ended. */
export interface Filled {
  readonly source: string
  readonly before: Coverage
  readonly after: Coverage
}

interface Line {
  readonly column: string
  readonly before: number
  readonly after: number
  readonly gained: number
}

const BAR = 26

/** What was filled, column by column, with a bar of what was there, what came, and what is still blank. */
export function filledLines(all: readonly Filled[], output: Output): string[] {
  const names = Math.max(
    ...all.flatMap(({ source, after }) => [source, ...after.columns.map((one) => one.column)]).map(width),
  )
  return [
    ...all.flatMap((one) => [
      ...table(
        linesOf(one),
        [
          { title: `  ${pad(one.source, names)}`, text: (line) => `  ${line.column}` },
          { title: 'before', text: (line) => percent(line.before), number: true },
          { title: ' after', text: (line) => percent(line.after), number: true },
          {
            title: 'filled',
            text: (line) => (line.gained === 0 ? '·' : `+${count(line.gained)}`),
            number: true,
          },
          { title: `of ${count(one.after.eligible)} rows`, text: gains, least: 8 },
        ],
        output,
      ),
      '',
    ]),
    output.paint('quiet', `  ${BEFORE} there before   ${GAINED} filled now   ${BLANK} still blank`),
  ]
}

const linesOf = ({ before, after }: Filled): Line[] =>
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

/** Told apart by the characters, not by colour. */
function gains({ before, after }: Line): string {
  const there = Math.round(before * BAR)
  const filled = Math.max(there, Math.round(after * BAR))
  return BEFORE.repeat(there) + GAINED.repeat(filled - there) + BLANK.repeat(BAR - filled)
}
