import * as pauses from '../../../store/source-state.ts'
import { auditActionOnce } from '../../../actions/audit.ts'
import { pluralize } from '../../../util/text.ts'
import { html, sourceUrl, type Markup } from '../html.ts'
import { requireSource } from '../page.ts'
import { defineAction } from './action.ts'

const MAX_REASON_LENGTH = 200

export const pauseAction = defineAction({
  path: '/sources/:source/pause',
  find: (request, deps) => requireSource(request, deps).name,
  pageOf: sourceUrl,
  confirm: (source) => ({
    title: `Pause ${source}`,
    body: html`<p>
      Runs skip <b>${source}</b> while it is paused, and live sync keeps its changes for later. Rows picked
      before are still looked up and written, because they may be billed already. It lasts until the source is
      resumed.
    </p>`,
    fields: pauseFields(),
    button: 'Pause',
  }),
  perform: async (source, { form, actor, requestId }, { db }) => {
    const reason = (form['reason'] ?? '').trim().slice(0, MAX_REASON_LENGTH) || null
    await auditActionOnce(
      db,
      { actor, requestId, action: 'pause', parameters: { sources: [source], reason } },
      () => pauses.pauseSources(db, [source], { by: actor.name, reason }),
      () => ({ outcome: 'done', detail: null }),
    )
  },
})

export const resumeAction = defineAction({
  path: '/sources/:source/resume',
  find: (request, deps) => requireSource(request, deps).name,
  pageOf: sourceUrl,
  confirm: async (source, { db }) => {
    const pause = (await pauses.listPaused(db)).find((paused) => paused.source === source)
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
    }
  },
  perform: async (source, { actor, requestId }, { db }) =>
    auditActionOnce(
      db,
      { actor, requestId, action: 'resume', parameters: { sources: [source] } },
      () => pauses.resumeSources(db, [source]),
      ({ length }) => ({
        outcome: 'done',
        detail: length === 0 ? 'it was not paused' : `${pluralize(length, 'source')} resumed`,
      }),
    ),
})

const pauseFields = (): Markup =>
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
  </div>`
