import type { SystemData } from '../../../actions/system-data.ts'
import { describeCondition, severityOf } from '../../../domain/condition.ts'
import type { ListedProcess } from '../../../store/processes.ts'
import type { StoredCondition } from '../../../store/conditions.ts'
import { formatDuration } from '../../../util/format.ts'
import {
  badge,
  card,
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
      body: html`${pageHead('System')} ${processesSection(data)} ${conditionsSection(data)}
      ${auditSection(data)} ${configurationSections(data)}`,
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
const conditionsSection = ({ recentConditions, readAt }: SystemData): Html =>
  card(
    'conditions',
    'Conditions',
    dataTable<StoredCondition>(
      'The latest conditions',
      [
        { name: 'condition', kind: 'row', cell: (one) => describeCondition(one, readAt).title },
        {
          name: 'state',
          cell: (one) =>
            one.endedAt === null
              ? badge('open', severityOf(one) === 'error' ? 'bad' : 'warn')
              : badge('over', 'quiet'),
        },
        { name: 'began', cell: ({ since }) => timeAgo(since, readAt) },
        {
          name: 'lasted',
          kind: 'number',
          cell: ({ since, endedAt }) => formatDuration((endedAt?.getTime() ?? readAt) - since.getTime()),
        },
      ],
      recentConditions,
      { none: 'Nothing has gone wrong yet.' },
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
