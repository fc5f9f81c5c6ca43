import { formatState } from '../../../domain/row.ts'
import type { SystemData } from '../../../actions/system-data.ts'
import { describeTrouble } from '../../../domain/trouble.ts'
import type { ListedNotification } from '../../../store/notifications.ts'
import type { ListedProcess } from '../../../store/processes.ts'
import type { StoredTrouble } from '../../../store/troubles.ts'
import { formatCount, formatDuration } from '../../../util/format.ts'
import {
  badge,
  card,
  clamped,
  clockTime,
  dataTable,
  definitionList,
  pageHead,
  processName,
  timeAgo,
  nameText,
} from '../components.ts'
import { html, type Html, type HtmlPart } from '../html.ts'
import type { Page } from '../page.ts'
import { auditSection } from './audit.ts'

/** The processes of this database, what each of them does, and the configuration that it has loaded; what went wrong and what was changed lately. */
export const systemPage: Page = {
  path: '/system',
  name: 'System',
  isLive: true,
  show: async (_, { readSystem }) => {
    const data = await readSystem()
    return {
      body: html`${pageHead('System')} ${processesSection(data)} ${troublesSection(data)}
      ${notificationsSection(data)} ${auditSection(data)} ${configurationSections(data)}`,
    }
  },
}

const ROLES: Readonly<Record<ListedProcess['role'], string>> = {
  start: 'daemon (start)',
  serve: 'receiver (serve)',
  run: 'single run (run)',
}

function processesSection({ processes, readAt, hasDaemon }: SystemData): Html {
  const versions = new Set(processes.filter((one) => one.isAlive).map((one) => one.version))
  return card('processes', 'Processes', [
    versions.size > 1 &&
      html`<p class="note">
        ${badge('mixed versions', 'warn')} ${[...versions].join(' and ')} run at the same time: finish the
        upgrade.
      </p>`,
    !hasDaemon &&
      html`<p class="note">
        ${badge('no daemon', 'warn')} Nothing starts by itself: neither the schedule nor live sync. Start
        <code>fillrate start</code>.
      </p>`,
    dataTable<ListedProcess>(
      'Processes with their roles, versions and leases',
      [
        {
          name: 'process',
          kind: 'row',
          cell: ({ owner }) => html`<code class="short">${processName(owner)}</code>`,
        },
        {
          name: 'state',
          cell: ({ isAlive, seenAt }) =>
            isAlive ? badge('alive', 'good') : [badge('gone', 'bad'), ' ', timeAgo(seenAt, readAt)],
        },
        { name: 'role', cell: ({ role }) => ROLES[role] },
        { name: 'does', kind: 'text', cell: duties },
        {
          name: 'version',
          cell: ({ version, nodeVersion }) => html`${version} <span class="soft">Node ${nodeVersion}</span>`,
        },
        { name: 'started', cell: ({ startedAt }) => timeAgo(startedAt, readAt) },
        { name: 'configuration since', cell: ({ configLoadedAt }) => timeAgo(configLoadedAt, readAt) },
      ],
      processes,
      { none: 'No process has reported yet.' },
    ),
  ])
}

/** What went wrong lately, and for how long. */
const troublesSection = ({ recentTroubles, readAt }: SystemData): Html =>
  card(
    'troubles',
    'Troubles',
    dataTable<StoredTrouble>(
      'The latest troubles',
      [
        { name: 'trouble', kind: 'row', cell: (one) => describeTrouble(one, readAt).title },
        {
          name: 'state',
          cell: ({ endedAt, severity }) =>
            endedAt === null ? badge('open', severity === 'error' ? 'bad' : 'warn') : badge('over', 'quiet'),
        },
        { name: 'began', cell: ({ since }) => timeAgo(since, readAt) },
        {
          name: 'lasted',
          kind: 'number',
          cell: ({ since, endedAt }) => formatDuration((endedAt?.getTime() ?? readAt) - since.getTime()),
        },
      ],
      recentTroubles,
      { none: 'Nothing has gone wrong yet.' },
    ),
  )

const DELIVERY_TONES = { pending: 'busy', delivered: 'good', given_up: 'bad' } as const

/** What was sent to people, where to, and what was not accepted there. */
const notificationsSection = ({ notifications, readAt }: SystemData): Html =>
  card(
    'notifications',
    'Notifications',
    dataTable<ListedNotification>(
      'The latest notifications',
      [
        { name: 'notification', kind: 'row', cell: ({ body }) => body.title },
        { name: 'to', cell: ({ host }) => html`<code class="short">${host}</code>` },
        { name: 'state', cell: ({ state }) => badge(formatState(state), DELIVERY_TONES[state]) },
        { name: 'attempts', kind: 'number', cell: ({ attempts }) => formatCount(attempts) },
        { name: 'created', cell: ({ created_at: at }) => timeAgo(at, readAt) },
        { name: 'reason', kind: 'text', cell: ({ reason }) => clamped(reason) },
      ],
      notifications,
      { none: html`None yet. <code>notify</code> in the configuration says where to.` },
    ),
  )

/** What the leases of a process say about it. */
const duties = ({ leases }: ListedProcess): HtmlPart =>
  leases.map((scope, n) => [
    n > 0 && ', ',
    scope === 'follow' ? 'runs live sync' : html`calls ${nameText(scope.split(' ').join(', key '))}`,
  ])

/** Each configuration that a process has loaded; processes with the same one share it. */
function configurationSections({ processes, readAt }: SystemData): Html[] {
  const byText = new Map<string, ListedProcess[]>()
  for (const one of processes.filter(({ isAlive }) => isAlive)) {
    const text = JSON.stringify(one.config, null, 2)
    byText.set(text, [...(byText.get(text) ?? []), one])
  }
  return [...byText].map(([text, [first, ...others]], n) =>
    card(
      `configuration-${n + 1}`,
      byText.size === 1 ? 'Configuration as loaded' : `Configuration ${n + 1} of ${byText.size}`,
      [
        byText.size > 1 &&
          n === 0 &&
          html`<p class="note">
            ${badge('processes differ', 'warn')} Not every process has loaded the same configuration: send
            SIGHUP to those with the older one.
          </p>`,
        first !== undefined &&
          definitionList([
            ['File', first.configPath === null ? 'from code' : html`<code>${first.configPath}</code>`],
            ['Loaded', html`${clockTime(first.configLoadedAt)} (${timeAgo(first.configLoadedAt, readAt)})`],
            [
              'In',
              [first, ...others].map((one, at) => [
                at > 0 && ', ',
                html`<code>${processName(one.owner)}</code>`,
              ]),
            ],
          ]),
        html`<details id="configuration-${n + 1}-text">
          <summary>Show the configuration with its defaults (it holds no secret)</summary>
          <pre class="code" tabindex="0">${text}</pre>
        </details>`,
      ],
    ),
  )
}
