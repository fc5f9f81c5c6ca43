import { describeForgetDeleted } from '../../../actions/audit.ts'
import { pluralize } from '../../../util/format.ts'
import { html, sourceUrl } from '../html.ts'
import {
  perform,
  PREVIEW_TIMEOUT_MS,
  requireApp,
  requireSource,
  type ActionDeps,
  type DashboardAction,
} from './action.ts'

/** How long one request erases, in milliseconds: a browser and its proxies wait no longer. The rest needs another. */
const ERASE_TIMEOUT_MS = 25_000

/** Erases what is stored of a source's deleted rows: the confirmation that a held erasure waits for. */
export function createEraseAction(deps: ActionDeps): DashboardAction {
  const erase = async (source: string, dryRun: boolean, timeoutMs: number) =>
    requireApp(deps).forgetDeleted(source, { dryRun, signal: AbortSignal.timeout(timeoutMs) })
  return {
    path: '/sources/:source/erase',
    confirm: async (request) => {
      const source = requireSource(deps, request)
      const { deleted } = await erase(source, true, PREVIEW_TIMEOUT_MS)
      return {
        title: `Erase the deleted rows of ${source}`,
        body:
          deleted === 0
            ? html`<p>Every row that Fillrate knows is in its table. There is nothing to erase.</p>`
            : html`<p>
                  <b>${pluralize(deleted, 'row')}</b> of ${source} ${deleted === 1 ? 'is' : 'are'} gone from
                  the table. This erases what Fillrate has stored of them: records, recorded values, results.
                  A record that another row needs stays, and rows that are in the table again are restored.
                </p>
                <p>
                  It cannot be undone. Your own tables are not changed, and lookups of these people are not
                  suppressed.
                </p>`,
        button: deleted === 0 ? null : `Erase ${pluralize(deleted, 'row')}`,
        isDangerous: true,
        backUrl: sourceUrl(source),
      }
    },
    perform: async (request) => {
      const source = requireSource(deps, request)
      await perform(
        deps,
        request,
        { action: 'forget', parameters: { sources: [source], deleted: true } },
        () => erase(source, false, ERASE_TIMEOUT_MS),
        describeForgetDeleted,
      )
      return sourceUrl(source)
    },
  }
}
