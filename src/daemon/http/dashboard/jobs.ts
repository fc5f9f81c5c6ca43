import type { Board } from '../../../pipeline/board.ts'
import type { JobGroup } from '../../../store/overview.ts'
import { html, type Html, type Part } from './html.ts'
import { badge, number, scroll, section, stateBadge, when } from './parts.ts'

/** What a state of a job means for whoever waits for it. */
const MEANS: Readonly<Record<JobGroup['state'], string>> = {
  submitting: 'about to be posted, or to be posted again',
  submitted: 'with the service; its delivery is awaited',
  in_doubt: 'it is unknown whether it arrived; not sent again',
  expired: 'no delivery in time; its members are asked one by one',
  failed: 'the service says that it failed; what it delivered is used',
  rejected: 'the service would not take it; its members are asked one by one',
  completed: 'delivered',
}

export function jobs({ jobs: groups, at }: Board): Html {
  if (groups.length === 0)
    return section('jobs', 'Jobs', html`<p class="empty">Nothing has gone in bulk yet.</p>`)
  return section(
    'jobs',
    'Jobs',
    scroll(
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
                ${number(group.jobs)}${number(group.emails)}
                <td>${when(group.oldest, at)}</td>
                <td>${deadlineOf(group, at)}</td>
                <td class="reason">${MEANS[group.state]}</td>
              </tr>`,
          )}
        </tbody>
      </table>`,
    ),
  )
}

function deadlineOf({ deadline, overdue }: JobGroup, at: number): Part {
  if (deadline === null) return null
  return [when(deadline, at), overdue > 0 && [' ', badge(`${overdue} overdue`, 'bad')]]
}
