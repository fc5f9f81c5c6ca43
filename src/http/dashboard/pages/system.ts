import type { SystemData } from '../../../actions/dashboard-data.ts'
import { describeCondition, severityOf } from '../../../domain/condition.ts'
import type { AuditEvent, AuditOutcome } from '../../../store/audit.ts'
import type { ListedProcess } from '../../../store/processes.ts'
import type { StoredCondition } from '../../../store/conditions.ts'
import { formatDuration } from '../../../util/text.ts'
import { badge, card, dataTable, pageHead, processName, timeAgo, nameText, type Tone } from '../components.ts'
import { html, type Markup, type HtmlPart } from '../html.ts'
import type { Page } from '../page.ts'

/** The processes of this database and what each of them does; what went wrong and what was changed lately. */
export const systemPage: Page = {
  path: '/system',
  name: 'System',
  isLive: true,
  show: async (_, { readSystem }) => {
    const data = await readSystem()
    return {
      body: html`${pageHead('System')} ${processesSection(data)} ${conditionsSection(data)}
      ${auditSection(data)}`,
    }
  },
}

const ROLES: Readonly<Record<ListedProcess['role'], string>> = {
  start: 'daemon (start)',
  serve: 'receiver (serve)',
  run: 'single run (run)',
}

function processesSection({ processes, readAt, hasDaemon }: SystemData): Markup {
  const alive = processes.filter(({ isAlive }) => isAlive)
  const variants = new Set(alive.map(({ version, config }) => JSON.stringify([version, config])))
  return card('processes', 'Processes', [
    variants.size > 1 &&
      html`<p class="note">
        ${badge('processes differ', 'warn')} Not every process has the same version and has loaded the same
        configuration: finish the upgrade, or restart those with the older configuration.
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
        {
          name: 'configuration',
          cell: ({ configPath }) => (configPath === null ? 'from code' : html`<code>${configPath}</code>`),
        },
      ],
      processes,
      { none: 'No process has reported yet.' },
    ),
  ])
}

/** What the leases of a process say about it. The fingerprint of a key says nothing to people. */
const duties = ({ leases }: ListedProcess): HtmlPart =>
  leases.map((scope, n) => [
    n > 0 && ', ',
    scope === 'follow' ? 'runs live sync' : html`calls ${nameText(scope.split(' ')[0] ?? scope)}`,
  ])

/** What went wrong lately, and for how long. */
const conditionsSection = ({ recentConditions, readAt }: SystemData): Markup =>
  card(
    'conditions',
    'Last conditions',
    dataTable<StoredCondition>(
      'What was wrong lately',
      [
        { name: 'condition', kind: 'row', cell: (condition) => describeCondition(condition, readAt).title },
        {
          name: 'state',
          cell: (condition) =>
            condition.endedAt === null
              ? badge('open', severityOf(condition) === 'error' ? 'bad' : 'warn')
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

const auditSection = ({ changes, readAt }: SystemData): Markup =>
  card(
    'audit',
    'Who changed what',
    dataTable<AuditEvent>(
      'The latest changes',
      [
        { name: 'action', kind: 'row', cell: ({ action }) => action },
        { name: 'when', cell: ({ at }) => timeAgo(at, readAt) },
        {
          name: 'who',
          cell: ({ actor, origin }) => html`${actor}<br /><span class="soft">${origin}</span>`,
        },
        { name: 'details', kind: 'text', cell: ({ parameters }) => describeParameters(parameters) },
        {
          name: 'outcome',
          kind: 'text',
          cell: ({ outcome, detail }) => [
            badge(outcome ?? 'under way', OUTCOME_TONES[outcome ?? 'open']),
            ' ',
            detail,
          ],
        },
        { name: 'run', cell: ({ run }) => run !== null && html`<a href="/runs/${run}">${run}</a>` },
      ],
      changes,
      { none: 'Nothing was changed yet.' },
    ),
  )

const OUTCOME_TONES: Readonly<Record<AuditOutcome | 'open', Tone>> = {
  done: 'good',
  interrupted: 'warn',
  failed: 'bad',
  open: 'busy',
}

/** The parameters that say something. */
const describeParameters = (parameters: AuditEvent['parameters']): HtmlPart =>
  Object.entries(parameters)
    .filter(([, value]) => value !== null && value !== false && String(value) !== '')
    .map(
      ([name, value]) =>
        html`<span class="parameter"
          ><span class="soft">${name.replaceAll('_', ' ')}</span> ${String(value).replaceAll(',', ', ')}</span
        > `,
    )
