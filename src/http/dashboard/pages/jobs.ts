import { Job } from '../../../domain/job.ts'
import { type JobGroup, listJobGroups } from '../../../store/metrics.ts'
import { listJobs, type StoredJob } from '../../../store/job-actions.ts'
import { formatCount } from '../../../util/format.ts'
import { html, type Html, type HtmlPart } from '../html.ts'
import type { Page } from '../page.ts'
import { badge, card, clamped, dataTable, pageHead, stateBadge, timeAgo } from '../components.ts'

/** What each job state means. */
const STATE_MEANINGS: Readonly<Record<JobGroup['state'], string>> = {
  submitting: 'being submitted or retried',
  submitted: 'accepted by the service; waiting for its delivery',
  in_doubt: 'submission may have arrived; not repeated',
  expired: 'no delivery in time; its inputs are looked up one by one',
  failed: 'the service reported a failure; delivered results are used',
  rejected: 'rejected by the service; its inputs are looked up one by one',
  completed: 'delivered',
}

interface JobsPageData {
  readonly groups: readonly JobGroup[]
  /** The latest, newest first. */
  readonly jobs: readonly StoredJob[]
  readonly state: string | null
  readonly readAt: number
}

/** Bulk jobs: how many are in which state, and the latest ones. */
export const jobsPage: Page = {
  path: '/jobs',
  name: 'Jobs',
  isLive: true,
  show: async ({ query }, { db }) => {
    const state = Object.values(Job).find((one) => one === query.get('state')) ?? null
    const jobs = await listJobs(db, MAX_LISTED, state)
    const data = { groups: await listJobGroups(db), jobs, state, readAt: Date.now() }
    return { body: html`${pageHead('Jobs')} ${groupsSection(data)}${jobs.length > 0 && listSection(data)}` }
  },
}

const MAX_LISTED = 50

function groupsSection({ groups, readAt }: JobsPageData): Html {
  return card(
    'job-states',
    'By state',
    dataTable<JobGroup>(
      'Bulk jobs by state and age',
      [
        {
          name: 'state',
          kind: 'row',
          cell: ({ state }) => html`<a class="plain" href="/jobs?state=${state}">${stateBadge(state)}</a>`,
        },
        { name: 'jobs', kind: 'number', cell: ({ jobs }) => formatCount(jobs) },
        { name: 'inputs', kind: 'number', cell: ({ emails }) => formatCount(emails) },
        { name: 'oldest', cell: ({ oldest }) => timeAgo(oldest, readAt) },
        { name: 'deadline', cell: (group) => deadlineCell(group, readAt) },
        { name: 'meaning', kind: 'text', cell: ({ state }) => STATE_MEANINGS[state] },
      ],
      groups,
      {
        none: html`No bulk jobs yet. A run submits lookups in jobs where the service takes them in bulk and
          enough of them wait; <code>fillrate check</code> says whether it does.`,
      },
    ),
  )
}

function deadlineCell({ deadline, overdue }: JobGroup, at: number): HtmlPart {
  return [deadline && timeAgo(deadline, at), overdue > 0 && [' ', badge(`${overdue} overdue`, 'bad')]]
}

const listSection = ({ jobs, state, readAt }: JobsPageData): Html =>
  card(
    'job-list',
    state === null ? 'Latest' : ['Latest: ', stateBadge(state)],
    dataTable<StoredJob>(
      'The latest jobs',
      [
        {
          name: 'job',
          kind: 'row',
          cell: ({ key, job_id: id }) => html`<code class="short">${id ?? key}</code>`,
        },
        { name: 'state', cell: (job) => stateBadge(job.state) },
        { name: 'inputs', kind: 'number', cell: ({ size }) => formatCount(size) },
        { name: 'attempts', kind: 'number', cell: ({ attempts }) => formatCount(attempts) },
        { name: 'run', cell: ({ run }) => run !== null && html`<a href="/runs/${run}">${run}</a>` },
        { name: 'submitted', cell: ({ submitted_at: at }) => at && timeAgo(at, readAt) },
        {
          name: 'finished or due',
          cell: (job) =>
            job.finished_at === null
              ? ['due ', timeAgo(job.deadline_at, readAt)]
              : timeAgo(job.finished_at, readAt),
        },
        {
          name: 'reason',
          kind: 'text',
          cell: ({ reason, poll_at: pollAt }) =>
            pollAt === null || reason !== null ? clamped(reason) : ['fetched ', timeAgo(pollAt, readAt)],
        },
      ],
      jobs,
    ),
    state !== null && html`<a href="/jobs">All states</a>`,
  )
