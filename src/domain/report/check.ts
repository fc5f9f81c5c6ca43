import { z } from 'zod'
import { is, object, type ReportOf } from './shape.ts'

const problem = object({
  source: is.orAbsent(is.text('the source that it is about')),
  place: is.text('where: `sources.contacts.outputs.title`, a flag, a variable'),
  found: is.text('what is there'),
  expected: is.text('what should be there'),
  todo: is.orNull(is.text('what to do; null: make it what is expected')),
}).meta({ id: 'problem' })

/** The result of one check. */
export type ReportedFinding = ReportOf<typeof finding>
const finding = object({
  name: is.text('what was checked: `database`, `source contacts`'),
  service: is.orAbsent(
    is.text(
      'the service that it is about, by its name in the configuration; absent: it is about all, or there is one without a name',
    ),
  ),
  verdict: z
    .enum(['ok', 'warning', 'error', 'skipped'])
    .describe('`skipped`: not checked, because of an error before'),
  text: is.text('what was found, in one line'),
  todo: is.orNull(is.text('what to do, if no problem says it; null: nothing')),
  problems: is.list(
    'the single problems',
    problem.extend({
      grant: is.orAbsent(
        is.anything('the privilege or policy that the role lacks; absent: it is another problem'),
      ),
    }),
  ),
})

/** As `check --json` prints it. */
export const checkReport = object({
  ok: is.boolean('no check failed'),
  checks: is.list('in the order in which they were made', finding),
})

/** As any command prints an error with `--json`. */
export const errorReport = object({
  error: object({
    kind: is.text('what was wrong: `usage`, `configuration`, `database`, …'),
    message: is.text('what happened, where, what was expected and what to do'),
    problems: is.list('the single problems, if there are several', problem),
  }).describe('why the command failed'),
})
