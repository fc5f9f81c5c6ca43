import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { relativeTime } from '../../../src/util/format.ts'
import { browserProgram } from '../../support/browser.ts'
import {
  type BrowserDashboard,
  OPERATOR,
  openBrowserDashboard,
  READER,
} from '../../support/browser-dashboard.ts'
import type { Harness } from '../../support/harness.ts'
import { inspectPage } from '../../support/inspect-page.ts'

describe.skipIf(browserProgram() === null)('actions on the dashboard, in a browser', () => {
  let dashboard: BrowserDashboard
  let harness: Harness
  let browser: Browser
  let context: BrowserContext
  let page: Page
  let at: string

  beforeAll(async () => {
    dashboard = await openBrowserDashboard()
    ;({ harness, browser, context, page, at } = dashboard)
  })
  afterAll(() => dashboard.close())

  async function inspect(name: string): Promise<void> {
    const findings = await inspectPage(page)
    expect(findings.map((text) => `${name}: ${text}`)).toEqual([])
  }

  test('relative times are those of the server, also on a day of 23 or 25 hours', async () => {
    const now = Date.parse('2025-03-29T23:34:00Z')
    const seconds = [0.4, 1, 59.4, 59.7, 90, 5_399, 9_660, 84_000, 86_399, 90_000, 129_700, 7_775_999]
    const times = seconds.flatMap((one) => [one, -one]).map((one) => new Date(now + one * 1_000))
    const reading = await browser.newContext({ timezoneId: 'Europe/Berlin' })
    const reader = await reading.newPage()
    await reader.clock.setFixedTime(now)
    await reader.route(`${at}/login`, async (route) => {
      const answer = await route.fetch()
      const list = times.map((one) => `<time datetime="${one.toISOString()}">not read</time>`).join('')
      await route.fulfill({
        response: answer,
        body: (await answer.text()).replace('</main>', `${list}</main>`),
      })
    })
    await reader.goto(`${at}/login`)
    await expect.poll(() => reader.locator('time', { hasText: 'not read' }).count()).toBe(0)
    expect(await reader.locator('time').allInnerTexts()).toEqual(times.map((one) => relativeTime(one, now)))
    await reading.close()
  })

  test('a link leads through sign-in to its page, and signing out ends the session', async () => {
    await page.goto(`${at}/failures?source=contacts`)
    expect(new URL(page.url()).pathname).toBe('/login')
    await inspect('login')
    await page.fill('#token', 'wrong')
    await page.keyboard.press('Enter')
    expect(await page.locator('#fault').innerText()).toBe('Wrong token.')
    await page.fill('#token', OPERATOR)
    await page.keyboard.press('Enter')
    await page.waitForURL(`${at}/failures?source=contacts`)
    const [cookie] = await context.cookies()
    expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Lax', secure: false })
    // From another site, as from a chat: signed in already.
    const chat = await context.newPage()
    await chat.route('https://chat.example/', (route) =>
      route.fulfill({ contentType: 'text/html', body: `<a href="${at}/runs/new">open</a>` }),
    )
    await chat.goto('https://chat.example/')
    await chat.locator('a').click()
    await chat.waitForURL(`${at}/runs/new`)
    await chat.close()
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.waitForURL(`${at}/login`)
    await context.addCookies([cookie as NonNullable<typeof cookie>])
    await page.goto(at)
    expect(new URL(page.url()).pathname).toBe('/login')
    await page.fill('#token', OPERATOR)
    await page.keyboard.press('Enter')
    await page.waitForURL(`${at}/`)
  })

  test('a run is previewed and started', async () => {
    await page.locator('a', { hasText: 'Start a run' }).first().click()
    await page.locator('h1', { hasText: 'Start a run' }).waitFor()
    await page.fill('#budget', 'lots')
    await page.getByRole('button', { name: 'Preview' }).click()
    expect(await page.locator('#source-fault').innerText()).toBe('Choose at least one source.')
    expect(await page.locator('#budget-fault').innerText()).toContain('whole number')
    await inspect('run-form')
    await page.getByLabel('accounts').check()
    await page.getByLabel('contacts').check()
    await page.fill('#budget', '40')
    await page.fill('#where', 't.id < 50')
    await page.getByRole('button', { name: 'Preview' }).click()
    await page.locator('h1', { hasText: 'Start this run?' }).waitFor()
    expect(await page.locator('#cost .figure').innerText()).toMatch(/^\d+$/)
    await inspect('run-preview')
    await page.getByRole('button', { name: 'Start the run' }).click()
    await page.waitForURL(/\/runs\/1$/)
    await expect
      .poll(async () => (await page.reload(), page.locator('h1').innerText()))
      .toContain('budget reached')
    await inspect('run')
  })

  test('what is stored of deleted rows is held, and how to erase it is said', async () => {
    await harness.query(
      `with gone as (select key from fillrate.rows where source = 'contacts' order by key limit 15)
       delete from crm.contacts where id::text in (select key from gone)`,
    )
    await harness.run({ sources: ['contacts'], budget: 0 })
    await page.goto(`${at}/sources?sort=deleted`)
    const first = page.locator('#sources tbody tr').first()
    expect(await first.innerText()).toMatch(/contacts[\s\S]*15[\s\S]*held/)
    await first.locator('td[data-label=deleted] a').click()
    expect(await page.locator('#deleted').innerText()).toContain('fillrate forget --deleted contacts')
    await inspect('deleted rows')
  })

  test('a source is paused and resumed, without JavaScript', async () => {
    const state = await context.storageState()
    const plain = await browser.newContext({ javaScriptEnabled: false, storageState: state })
    const without = await plain.newPage()
    await without.goto(`${at}/sources/contacts/pause`)
    await without.fill('#reason', 'trade fair')
    await without.selectOption('#for', '1h')
    await without.locator('.confirm button').click()
    await without.goto(`${at}/sources/contacts/resume`)
    expect(await without.locator('main').innerText()).toContain('paused by anna because: trade fair')
    await plain.close()
    for (const path of [
      '/retry?source=accounts&state=write_rejected',
      '/runs/1/cancel',
      '/sources/contacts/pause',
    ]) {
      await page.goto(at + path)
      await inspect(path)
    }
    await page.goto(`${at}/sources/contacts/resume`)
    await inspect('resume')
    await page.locator('.confirm button').click()
    await page.waitForURL(/\/sources\/contacts$/)
    expect(await harness.database.pool.query('select from fillrate.paused_sources')).toMatchObject({
      rowCount: 0,
    })
  })

  test('the audit list shows who did what, and a reader sees it without any button', async () => {
    await page.goto(`${at}/system`)
    const actions = await page.locator('#audit tbody th').allInnerTexts()
    expect(actions).toEqual(['resume', 'pause', 'run'])
    expect(await page.locator('#audit tbody tr').last().innerText()).toMatch(/anna[\s\S]*accounts[\s\S]*done/)
    await inspect('system')
    const reading = await browser.newContext()
    const reader = await reading.newPage()
    await reader.goto(`${at}/login`)
    await reader.fill('#token', READER)
    await reader.keyboard.press('Enter')
    await reader.waitForURL(`${at}/`)
    // Live updates replace parts of the page: they must not bring the buttons back.
    await reader.locator('#connection', { hasText: 'live' }).waitFor()
    expect(await reader.locator('main a.button').count()).toBe(0)
    expect(await page.goto(at).then(() => page.locator('main a.button').count())).toBeGreaterThan(0)
    expect((await reader.goto(`${at}/runs/new`))?.status()).toBe(403)
    expect(dashboard.complaints.filter((text) => !/\b(?:401|422)\b/.test(text))).toEqual([])
    await reading.close()
  })
})
