import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Browser, Page } from 'playwright-core'
import type { DashboardToken } from '../src/config/env-values.ts'
import { SESSION_COOKIE, signSession } from '../src/http/sessions.ts'
import { openBrowser } from '../test/support/browser.ts'
import { startEmbeddedPostgres } from '../test/support/embedded-postgres.ts'
import { inspectPage } from '../test/support/inspect-page.ts'
import { OPERATOR } from './screenshots/setting.ts'
import * as states from './screenshots/states.ts'

// Visits every page of the dashboard in every state: empty, running, in trouble, twenty sources with the longest names,
// Postgres away. npm run screenshots --
//   --check          axe in both colour schemes, the width of a phone, errors of the page: exits 1 on a finding
//   --folder FOLDER  pictures of every page, dark, light and on a phone, to be looked at
//   --docs           the pictures of docs/
//   --state NAME, --page PATH   only these

const { values } = parseArgs({
  options: {
    check: { type: 'boolean', default: false },
    docs: { type: 'boolean', default: false },
    folder: { type: 'string' },
    state: { type: 'string' },
    page: { type: 'string' },
  },
})
const WINDOW = { width: 1240, height: 900 }
const LOOKS = {
  dark: { viewport: WINDOW, colorScheme: 'dark' },
  light: { viewport: WINDOW, colorScheme: 'light' },
  phone: { viewport: { width: 390, height: 844 }, colorScheme: 'light' },
} as const
type Look = keyof typeof LOOKS

const DOCS = new URL('../docs/', import.meta.url).pathname
/** The pictures of docs/, by state and page. */
const DOCS_PICTURES: readonly (readonly [state: string, page: string, look: Look, file: string])[] = [
  ['running', '/', 'dark', 'dashboard-running'],
  ['running', '/service', 'dark', 'dashboard-service'],
  ['running', '/runs/1', 'light', 'dashboard-run'],
  ['running', '/rows', 'light', 'dashboard-rows'],
  ['running', '/', 'phone', 'dashboard-phone'],
  ['services', '/services', 'light', 'dashboard-services'],
  ['services', '/', 'dark', 'dashboard-several-services'],
]

const findings: string[] = []
const profile = await mkdtemp(join(tmpdir(), 'fillrate-browser-'))
const postgres = await startEmbeddedPostgres(['max_connections=80', 'fsync=off'])
const browser = await openBrowser(profile)
try {
  if (values.folder !== undefined) await mkdir(values.folder, { recursive: true })
  const openers = {
    empty: states.openEmpty,
    running: states.openRunning,
    trouble: states.openTrouble,
    wide: states.openWide,
    services: states.openServices,
    away: (url: string) => states.openAway(url, () => postgres.stop()),
  }
  for (const [name, open] of Object.entries(openers)) {
    if (values.state !== undefined && name !== values.state) continue
    const state = await open(postgres.url)
    try {
      await visitAll(state, browser)
    } finally {
      await state.close()
    }
  }
} finally {
  await browser.close()
  await postgres.stop()
  await rm(profile, { recursive: true, force: true })
}
if (findings.length > 0) {
  console.error(findings.join('\n'))
  process.exitCode = 1
}

async function visitAll(state: states.DashboardState, opened: Browser): Promise<void> {
  const began = performance.now()
  const page = await opened.newPage(LOOKS.dark)
  const visits = state.pages.map((one) =>
    typeof one === 'string' ? { name: toFileName(one), path: one } : one,
  )
  for (const visit of visits.filter(({ path }) => values.page === undefined || path === values.page)) {
    const complaints = listenForErrors(page)
    await signIn(page, state.at, visit.as === undefined ? OPERATOR : visit.as)
    await page.goto(state.at + visit.path)
    await settle(page)
    await visit.act?.(page)
    await takePictures(page, state.name, visit)
    if (values.check) complaints.push(...(await inspectPage(page)))
    findings.push(...complaints.map((text) => `${state.name} ${visit.name}: ${text}`))
    await page.setViewportSize(WINDOW)
  }
  await page.close()
  const seconds = Math.round((performance.now() - began) / 1_000)
  console.log(`${state.name}: ${visits.length} pages, ${seconds} s`)
}

async function takePictures(page: Page, state: string, { name, path }: states.Visit): Promise<void> {
  for (const [look, { viewport, colorScheme }] of Object.entries(LOOKS)) {
    const files = [
      ...(values.folder === undefined
        ? []
        : [{ path: join(values.folder, `${state}-${name}-${look}.png`), isWhole: true }]),
      ...DOCS_PICTURES.filter(
        (one) => values.docs && one[0] === state && one[1] === path && one[2] === look,
      ).map(([, , , file]) => ({ path: join(DOCS, `${file}.png`), isWhole: false })),
    ]
    if (files.length === 0) continue
    await page.setViewportSize(viewport)
    await page.emulateMedia({ colorScheme })
    await waitForFrames(page)
    for (const file of files) await page.screenshot({ path: file.path, fullPage: file.isWhole })
  }
}

async function signIn(page: Page, at: string, token: DashboardToken | null): Promise<void> {
  await page.context().clearCookies()
  if (token === null) return
  const value = signSession(token, Date.now())
  await page.context().addCookies([{ name: SESSION_COOKIE, value, url: at }])
}

/** Errors of the page's script, and violations of its security policy, from now on. */
function listenForErrors(page: Page): string[] {
  const complaints: string[] = []
  page.removeAllListeners('pageerror').removeAllListeners('console')
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('console', (message) => {
    // Chromium reports answers such as 404 as errors.
    const isAnswer = message.text().startsWith('Failed to load resource')
    if (['error', 'warning'].includes(message.type()) && !isAnswer) complaints.push(message.text())
  })
  return complaints
}

/** Until the page is live and its charts are drawn. */
async function settle(page: Page): Promise<void> {
  if ((await page.locator('body[data-live]').count()) > 0)
    await page.locator('#connection', { hasText: 'live' }).waitFor()
  await waitForFrames(page)
}

async function waitForFrames(page: Page): Promise<void> {
  await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')
}

function toFileName(path: string): string {
  return path === '/' ? 'overview' : path.replaceAll(/\W+/g, '-').slice(1, 80)
}
