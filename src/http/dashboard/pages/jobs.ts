import type { DashboardData } from '../../../actions/dashboard-data.ts'
import type { JobGroup } from '../../../store/metrics.ts'
import { html, type Html, type HtmlPart } from '../html.ts'
import { badge, numberCell, scrollable, card, stateBadge, timeAgo } from '../components.ts'

/** What each job state means. */
const STATE_MEANINGS: Readonly<Record<JobGroup['state'], string>> = {
  submitting: 'being submitted or retried',
  submitted: 'accepted by the service; waiting for its delivery',
  in_doubt: 'submission may have arrived; not repeated',
  expired: 'no delivery in time; its emails are looked up one by one',
  failed: 'the service reported a failure; delivered results are used',
  rejected: 'rejected by the service; its emails are looked up one by one',
  completed: 'delivered',
}

export function jobsSection({ jobs: groups, readAt: at }: DashboardData): Html {
  if (groups.length === 0) return card('jobs', 'Jobs', html`<p class="empty">No bulk jobs yet.</p>`)
  return card(
    'jobs',
    'Jobs',
    scrollable(
      'Jobs',
      html`<table>
        <caption class="sr">
          Bulk jobs by state and age
        </caption>
        <thead>
          <tr>
            <th scope="col">state</th>
            <th scope="col" class="n">jobs</th>
            <th scope="col" class="n">emails</th>
            <th scope="col">oldest</th>
            <th scope="col">deadline</th>
            <th scope="col">meaning</th>
          </tr>
        </thead>
        <tbody>
          ${groups.map(
            (group) =>
              html`<tr>
                <th scope="row">${stateBadge(group.state)}</th>
                ${numberCell(group.jobs)}${numberCell(group.emails)}
                <td>${timeAgo(group.oldest, at)}</td>
                <td>${deadlineCell(group, at)}</td>
                <td class="reason">${STATE_MEANINGS[group.state]}</td>
              </tr>`,
          )}
        </tbody>
      </table>`,
    ),
  )
}

function deadlineCell({ deadline, overdue }: JobGroup, at: number): HtmlPart {
  if (deadline === null) return null
  return [timeAgo(deadline, at), overdue > 0 && [' ', badge(`${overdue} overdue`, 'bad')]]
}
