import { auditActionOnce, describeForgetDeleted } from '../../../actions/audit.ts'
import { pluralize } from '../../../util/format.ts'
import { html, sourceUrl } from '../html.ts'
import { defineAction, previewSignal, requireApp, requireSource } from './action.ts'

/** How long one request erases, in milliseconds: a browser and its proxies wait no longer. The rest needs another. */
const ERASE_TIMEOUT_MS = 25_000

/** Erases what is stored of a source's deleted rows: the confirmation that a held erasure waits for. */
export const eraseAction = defineAction({
  path: '/sources/:source/erase',
  find: requireSource,
  pageOf: sourceUrl,
  confirm: async (source, deps) => {
    const { deleted } = await requireApp(deps).forgetDeleted(source, {
      dryRun: true,
      signal: previewSignal(),
    })
    return {
      title: `Erase the deleted rows of ${source}`,
      body:
        deleted === 0
          ? html`<p>Every row that Fillrate knows is in its table. There is nothing to erase.</p>`
          : html`<p>
                <b>${pluralize(deleted, 'row')}</b> of ${source} ${deleted === 1 ? 'is' : 'are'} gone from the
                table. This erases what Fillrate has stored of them: records, recorded values, results. A
                record that another row needs stays, and rows that are in the table again are restored.
              </p>
              <p>
                It cannot be undone. Your own tables are not changed, and lookups of these people are not
                suppressed.
              </p>`,
      button: deleted === 0 ? null : `Erase ${pluralize(deleted, 'row')}`,
      isDangerous: true,
    }
  },
  perform: async (source, { actor, requestId }, deps) =>
    auditActionOnce(
      deps.db,
      { actor, requestId, action: 'forget', parameters: { sources: [source], deleted: true } },
      () =>
        requireApp(deps).forgetDeleted(source, {
          dryRun: false,
          signal: AbortSignal.timeout(ERASE_TIMEOUT_MS),
        }),
      describeForgetDeleted,
    ),
})
