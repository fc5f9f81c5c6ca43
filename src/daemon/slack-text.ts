import type { NoticeKind } from '../domain/notice.ts'
import type { Notice, NoticeRun } from './notice.ts'

const number = new Intl.NumberFormat('en-US')

/** A notification in one line, as a person reads it. Pure. */
export function slackText(notice: Notice): string {
  if (notice.run === undefined) {
    const { overdue: late } = notice.jobs
    const jobs = late === 1 ? '1 job was' : `${number.format(late)} jobs were`
    return `:warning: Fillrate: ${jobs} not delivered in time. The inputs are asked one by one.`
  }
  const { run } = notice
  const what = `run ${run.id} (${run.trigger}, ${run.sources.join(', ')})`
  return `${ICONS[notice.event]} Fillrate: ${what} ${ENDS[notice.event](run)}`
}

const ICONS: Readonly<Record<NoticeKind, string>> = {
  completed: ':white_check_mark:',
  no_matches: ':information_source:',
  budget_reached: ':moneybag:',
  failed: ':x:',
  jobs_overdue: ':warning:',
}

const enriched = ({ rows, lookups }: NoticeRun): string =>
  `enriched ${number.format(rows.enriched)} of ${number.format(rows.picked)} rows and asked ${number.format(lookups.requested)} lookups`

const ENDS: Readonly<Record<NoticeKind, (run: NoticeRun) => string>> = {
  completed: (run) => `${enriched(run)}.`,
  no_matches: (run) => `enriched nothing: ${number.format(run.rows.picked)} rows were picked.`,
  budget_reached: (run) => `reached its budget: it ${enriched(run)}. ${run.reason ?? ''}`.trimEnd(),
  failed: (run) => `failed: ${run.reason ?? 'without a reason'}. It ${enriched(run)} before.`,
  jobs_overdue: () => '',
}
