import type { Action } from './actions/action.ts'
import { cancelAction } from './actions/cancel.ts'
import { pauseAction, resumeAction } from './actions/pause.ts'
import { retryAction } from './actions/retry.ts'
import { startAction, startPage } from './actions/start-run.ts'
import { tryAction } from './actions/try-now.ts'
import type { Page } from './page.ts'
import { overviewPage } from './pages/overview.ts'
import { rowPage } from './pages/row.ts'
import { rowsPage } from './pages/rows.ts'
import { runPage } from './pages/run.ts'
import { runsPage } from './pages/runs.ts'
import { sourcePage, sourcesPage } from './pages/source.ts'
import { systemPage } from './pages/system.ts'

/** All pages; those with a name are the navigation, in this order. */
export const PAGES: readonly Page[] = [
  overviewPage,
  runsPage,
  rowsPage,
  sourcesPage,
  systemPage,
  runPage,
  startPage,
  rowPage,
  sourcePage,
]

/** Everything that an operator can change. */
export const ACTIONS: readonly Action[] = [
  startAction,
  cancelAction,
  pauseAction,
  resumeAction,
  retryAction,
  tryAction,
]
