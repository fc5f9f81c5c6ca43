import type { Db } from '../db.ts'
import { faultIn, withCaret } from '../expression.ts'
import { joins } from '../inputs.ts'
import type { Source } from '../mapped.ts'
import { SourceProblems } from '../problems.ts'
import { addError, probe } from './probe.ts'
import { Report } from './report.ts'

/**
 * Looks at a condition that is given with `--where`, before a run begins.
 * @throws SourceProblems with a caret at the place, when it can't stand in this source's pages
 */
export async function checkWhere(db: Db, source: Source, where: string): Promise<void> {
  const report = new Report(source.name)
  const fault = faultIn(where, [])
  const expected = 'a condition over t and the joins'
  if (fault) {
    report.add(
      '--where',
      `${withCaret(where, fault.at)}\n${fault.message}`,
      expected,
      'Correct the condition.',
    )
  } else {
    const before = `select 1 from ${source.table.sql} as t ${joins(source)} where (`
    const failed = await probe(db, { place: '--where', text: where, expected, before, after: '\n) limit 0' })
    if (failed) addError(failed, report)
  }
  if (report.problems.length > 0) throw new SourceProblems(report.problems)
}
