import { auditActionOnce, type AuditEnd } from '../../../actions/audit.ts'
import { describeAccount, type OpenService, type AccountAnswer } from '../../../actions/actions.ts'
import { listAuditEvents } from '../../../store/audit.ts'
import { timeAgo } from '../components.ts'
import { refused, type DashboardDeps } from '../page.ts'
import { html, type HtmlPart } from '../html.ts'
import { tryUrl } from '../pages/verdict.ts'
import { defineAction, requireApp } from './action.ts'

const ACTION = 'try now'

/** Proves a mended key or account, without waiting for the next time at which a process tries it. */
export const tryAction = defineAction({
  path: '/services/:service/try',
  find: ({ params }, deps): OpenService => {
    const found = requireApp(deps).services.find((service) => nameOf(service) === params['service'])
    if (found !== undefined) return found
    throw refused(404, 'No such service', html`<p>The configuration has no service ${params['service']}.</p>`)
  },
  pageOf: () => '/',
  confirm: async (service, { db }) => ({
    title: `Try ${nameOf(service)} now`,
    body: [
      await lastTry(db, service),
      service.config.adapter.account === null
        ? html`<p>
            The next lookup that waits for this service is requested at once, by whichever process has it, and
            may be billed. A free call would be <code>account</code> in the description of the service.
          </p>`
        : html`<p>
            Makes one free call, <code>${service.config.adapter.account.endpoint}</code>. If the service
            accepts the key, whatever waits for it goes on within seconds.
          </p>`,
    ],
    button: 'Try now',
  }),
  perform: async (service, { actor, requestId }, { db }) => {
    await auditActionOnce(
      db,
      { actor, requestId, action: ACTION, parameters: { service: nameOf(service) } },
      () => service.tryNow(),
      describeTry,
    )
    return tryUrl(nameOf(service))
  },
})

const nameOf = ({ name, address }: OpenService): string => name ?? address ?? 'the service'

function describeTry(answer: AccountAnswer | null): AuditEnd {
  if (answer === null) return { outcome: 'done', detail: 'the next lookup is tried at once' }
  return answer.isAccepted
    ? { outcome: 'done', detail: `the key is ${describeAccount(answer)}` }
    : { outcome: 'failed', detail: answer.reason }
}

/** What the last try has shown. */
async function lastTry(db: DashboardDeps['db'], service: OpenService): Promise<HtmlPart> {
  const tries = (await listAuditEvents(db, 50)).filter(({ action }) => action === ACTION)
  const last = tries.find(({ parameters }) => parameters['service'] === nameOf(service))
  return (
    last !== undefined &&
    html`<p class="notice ${last.outcome === 'failed' ? 'bad' : 'good'}" role="status">
      ${timeAgo(last.at, Date.now())}, ${last.actor}: ${last.detail ?? 'under way'}.
    </p>`
  )
}
