import type { DashboardData } from '../../../actions/dashboard-data.ts'
import type { JobGroup } from '../../../store/metrics.ts'
import { html, type Html, type HtmlPart } from '../html.ts'
import { badge, numberCell, scrollable, card, stateBadge, timeAgo } from '../components.ts'

/** What a state of a job means for whoever waits for it. */
const STATE_MEANINGS: Readonly<Record<JobGroup['state'], string>> = {
  submitting: 'about to be posted, or to be posted again',
  submitted: 'with the service; its delivery is awaited',
  in_doubt: 'it is unknown whether it arrived; not sent again',
  expired: 'no delivery in time; its members are asked one by one',
  failed: 'the service says that it failed; what it delivered is used',
  rejected: 'the service would not take it; its members are asked one by one',
  completed: 'delivered',
}

export function jobsSection({ jobs: groups, at }: DashboardData): Html {
  if (groups.length === 0)
    return card('jobs', 'Jobs', html`<p class="empty">Nothing has gone in bulk yet.</p>`)
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
            <th scope="col">what it means</th>
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
