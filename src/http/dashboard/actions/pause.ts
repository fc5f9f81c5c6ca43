import * as pauses from '../../../store/paused-sources.ts'
import { parseDuration, pluralize } from '../../../util/format.ts'
import { html, type Html, sourceUrl } from '../html.ts'
import { ActionRefused, perform, requireSource, type ActionDeps, type DashboardAction } from './action.ts'

/** How long a pause lasts, as offered. Empty: until the source is resumed. */
const DURATIONS = [
  ['', 'until it is resumed'],
  ['1h', '1 hour'],
  ['4h', '4 hours'],
  ['12h', '12 hours'],
  ['1d', '1 day'],
  ['7d', '7 days'],
] as const
const MAX_REASON_LENGTH = 200

export function createPauseAction(deps: ActionDeps): DashboardAction {
  return {
    path: '/sources/:source/pause',
    confirm: async (request) => {
      const source = requireSource(deps, request)
      return {
        title: `Pause ${source}`,
        body: html`<p>
          Runs skip <b>${source}</b> while it is paused, and live sync keeps its changes for later. Rows
          picked before are still looked up and written, because they may be billed already.
        </p>`,
        fields: pauseFields(),
        button: 'Pause',
        backUrl: sourceUrl(source),
      }
    },
    perform: async (request) => {
      const source = requireSource(deps, request)
      const reason = (request.form['reason'] ?? '').trim().slice(0, MAX_REASON_LENGTH) || null
      const duration = request.form['for'] ?? ''
      const forMs = duration === '' ? null : parseDuration(duration)
      if (duration !== '' && forMs === null)
        throw new ActionRefused(
          422,
          'Invalid duration',
          html`<p>Found ${duration}, expected 30m, 2h or 7d.</p>`,
        )
      await perform(
        deps,
        request,
        { action: 'pause', parameters: { sources: [source], reason, for_ms: forMs } },
        () => pauses.pauseSources(deps.db, [source], { by: request.actor.name, reason, forMs }),
        () => ({ outcome: 'done', detail: null }),
      )
      return sourceUrl(source)
    },
  }
}

export function createResumeAction(deps: ActionDeps): DashboardAction {
  return {
    path: '/sources/:source/resume',
    confirm: async (request) => {
      const source = requireSource(deps, request)
      const pause = (await pauses.listPaused(deps.db)).find((one) => one.source === source)
      return {
        title: `Resume ${source}`,
        body:
          pause === undefined
            ? html`<p>${source} is not paused.</p>`
            : html`<p>
                Runs pick rows of <b>${source}</b> again. It was paused by ${pause.paused_by}
                ${pause.reason !== null && html` because: ${pause.reason}`}.
              </p>`,
        button: pause === undefined ? null : 'Resume',
        backUrl: sourceUrl(source),
      }
    },
    perform: async (request) => {
      const source = requireSource(deps, request)
      await perform(
        deps,
        request,
        { action: 'resume', parameters: { sources: [source] } },
        () => pauses.resumeSources(deps.db, [source]),
        (changed) => ({
          outcome: 'done',
          detail:
            changed.length === 0 ? 'it was not paused' : `${pluralize(changed.length, 'source')} resumed`,
        }),
      )
      return sourceUrl(source)
    },
  }
}

const pauseFields = (): Html =>
  html`<div class="field">
      <label for="reason">Reason</label>
      <input
        id="reason"
        name="reason"
        maxlength="${MAX_REASON_LENGTH}"
        autocomplete="off"
        aria-describedby="reason-help"
      />
      <p id="reason-help" class="sub">Shown on the dashboard and in <code>fillrate status</code>.</p>
    </div>
    <div class="field">
      <label for="for">How long</label>
      <select id="for" name="for">
        ${DURATIONS.map(([value, text]) => html`<option value="${value}">${text}</option>`)}
      </select>
    </div>`
