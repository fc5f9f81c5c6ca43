import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { serveApp, startDaemon } from './app-processes.ts'
import { openBrowser } from './browser.ts'
import { createCrm, withAccounts } from './crm.ts'
import { startHarness, type Harness } from './harness.ts'

export const OPERATOR = 'a-token-that-is-hard-to-guess'
export const READER = 'another-one-that-only-reads'

/** A dashboard with 60 contacts and 8 accounts, three of which no write reaches, a daemon beside it, and a browser. */
export interface BrowserDashboard {
  readonly harness: Harness
  readonly browser: Browser
  readonly context: BrowserContext
  readonly page: Page
  /** Its address. */
  readonly at: string
  /** Errors of the page's script, and what the browser complains about. */
  readonly complaints: string[]
  close(): Promise<void>
}

export async function openBrowserDashboard(): Promise<BrowserDashboard> {
  const harness = await startHarness({
    config: {
      ...withAccounts,
      budget: 500,
      price: { currency: 'EUR', lookup: { person: 0.05, company: 0.02 } },
    },
    sandbox: { notFoundShare: 0.1, missingShare: 0 },
    prepare: async ({ pool }) => {
      await createCrm(pool, 60, 8)
      await pool.query(`create function crm.reject() returns trigger language plpgsql as
        $$ begin raise exception 'phone numbers are frozen' using errcode = 'check_violation'; end $$`)
      await pool.query(`create trigger reject before update on crm.accounts for each row
        when (old.id <= 3) execute function crm.reject()`)
    },
  })
  const tokens = [
    { name: 'anna', role: 'operator', secret: OPERATOR },
    { name: 'grafana', role: 'reader', secret: READER },
  ] as const
  const served = await serveApp(await harness.open({ environment: { dashboardTokens: tokens } }))
  const stopDaemon = startDaemon(await harness.open({ environment: { webhookSecrets: [] } }))
  const profile = await mkdtemp(join(tmpdir(), 'fillrate-browser-'))
  const browser = await openBrowser(profile)
  const context = await browser.newContext({ httpCredentials: { username: 'anna', password: OPERATOR } })
  const page = await context.newPage()
  const complaints: string[] = []
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
  })
  return {
    harness,
    browser,
    context,
    page,
    at: served.at,
    complaints,
    close: async () => {
      await browser.close()
      await Promise.all([served.stop(), stopDaemon()])
      await harness.close()
      await rm(profile, { recursive: true, force: true })
    },
  }
}
