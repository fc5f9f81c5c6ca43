import type { Action } from './actions/action.ts'
import { cancelAction } from './actions/cancel.ts'
import { pauseAction, resumeAction } from './actions/pause.ts'
import { retryAction } from './actions/retry.ts'
import { requestPage, runFormPage, startAction } from './actions/start-run.ts'
import type { Page } from './page.ts'
import { failuresPage } from './pages/failures.ts'
import { overviewPage } from './pages/overview.ts'
import { rowPage } from './pages/row.ts'
import { rowsPage } from './pages/rows.ts'
import { runPage } from './pages/run.ts'
import { runsPage } from './pages/runs.ts'
import { sourcePage } from './pages/source.ts'
import { sourcesPage } from './pages/sources.ts'
import { systemPage } from './pages/system.ts'

/** All pages; those with a name are the navigation, in this order. */
export const PAGES: readonly Page[] = [
  overviewPage,
  sourcesPage,
  rowsPage,
  failuresPage,
  runsPage,
  systemPage,
  sourcePage,
  rowPage,
  runPage,
  runFormPage,
  requestPage,
]

/** Everything that an operator can change. */
export const ACTIONS: readonly Action[] = [startAction, cancelAction, retryAction, pauseAction, resumeAction]
