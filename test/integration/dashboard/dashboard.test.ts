import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { browserProgram, openBrowser } from '../../support/browser.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { startHarness, type Harness } from '../../support/harness.ts'

// A real browser on real runs. To install one: apt-get install -y chromium.
const skipped = browserProgram() === null
if (skipped)
  console.warn('the dashboard is not tested: there is no chromium here (apt-get install -y chromium)')

describe.skipIf(skipped)('the dashboard, in a browser', () => {
  let harness: Harness
  let browser: Browser
  let profile: string
  let at: string
  const stop = new AbortController()
  let served: Promise<void>
  /** Errors of any page: failed scripts, or violations of the security policy. */
  const complaints: string[] = []

  beforeAll(async () => {
    harness = await startHarness({
      config: withAccounts,
      prepare: async ({ pool }) => {
        await createCrm(pool, 60, 8)
        await pool.query(`update crm.contacts set email = '<script>alert(1)</script>' where id in (1, 2)`)
      },
    })
    const app = await harness.open()
    const listening = Promise.withResolvers<string>()
    served = app.serve({ signal: stop.signal, onListening: (url) => listening.resolve(url ?? '') })
    at = await listening.promise
    await harness.run({ limit: 40 })
    await harness.run()
    profile = await mkdtemp(join(tmpdir(), 'fillrate-browser-'))
    browser = await openBrowser(profile)
  })
  afterAll(async () => {
    await browser?.close()
    stop.abort()
    await served
    await harness.close()
    await rm(profile, { recursive: true, force: true })
  })

  async function open(path = '/', options: Parameters<Browser['newPage']>[0] = {}): Promise<Page> {
    const page = await browser.newPage(options)
    page.on('pageerror', (error) => complaints.push(error.message))
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
    })
    await page.goto(at + path)
    return page
  }

  test('shows row states in a funnel that adds up, and fill rates', async () => {
    const page = await open()
    await page.locator('#chart canvas').waitFor()
    expect(await page.locator('#verdict').innerText()).toMatch(/^Idle\. Run 2 completed/)
    for (const [source, picked] of [
      ['contacts', 60],
      ['accounts', 8],
    ] as const) {
      const lines = await page.locator(`#source-${source} .funnel tbody tr`).evaluateAll((rows) =>
        rows.map((row) => ({
          isStep: row.classList.contains('step'),
          rows: Number(row.querySelector('td')?.textContent?.replaceAll(',', '')),
        })),
      )
      expect(lines[0]).toEqual({ isStep: true, rows: picked })
      // Each step is the remainder of the one before.
      const lost = (to: number): number =>
        lines.slice(0, to).reduce((sum, line) => sum + (line.isStep ? 0 : line.rows), 0)
      const steps = lines.flatMap((line, n) => (line.isStep ? [line.rows + lost(n)] : []))
      expect(new Set(steps)).toEqual(new Set([picked]))
    }
    const { rows } = await harness.database.pool.query<{ share: string }>(
      `select round(100.0 * count(nullif(trim(title), '')) / count(*), 1) || '%' as share from crm.contacts`,
    )
    const title = page.locator('#source-contacts .coverage tr', { hasText: 'title' })
    expect(await title.locator('td.n').first().innerText()).toBe(rows[0]?.share)
    expect(await page.locator('#runs tbody tr').count()).toBe(2)
    await page.close()
  })

  test('updates live: a pause on one page shows on another', async () => {
    const [acting, watching] = [await open(), await open()]
    await acting.locator('#connection', { hasText: 'live' }).waitFor()
    await acting.locator('#source-accounts button').click()
    await acting.locator('#source-accounts .badge', { hasText: 'paused' }).waitFor()
    await watching.locator('#source-accounts .badge', { hasText: 'paused' }).waitFor()
    expect(await watching.locator('#verdict').innerText()).toContain('Paused: accounts.')
    const report = await harness.run()
    expect(report.reason).toContain('accounts is paused')
    await watching.locator('#runs th a', { hasText: '3' }).waitFor()
    await watching.locator('#source-accounts button', { hasText: 'Resume' }).press('Enter')
    await watching.locator('#source-accounts .badge', { hasText: 'paused' }).waitFor({ state: 'detached' })
    await Promise.all([acting.close(), watching.close()])
  })

  test('links reasons to rows and rows to their history, and escapes values', async () => {
    const page = await open()
    await page.locator('#failures a', { hasText: 'email' }).first().click()
    expect(await page.locator('#failures tbody tr').count()).toBe(2)
    await page.locator('#failures tbody a').first().click()
    expect(await page.locator('h1').innerText()).toContain('1')
    expect(await page.locator('#values').innerText()).toContain('<script>alert(1)</script>')
    await page.selectOption('#find-source', 'contacts')
    await page.fill('#find-key', '3')
    await page.press('#find-key', 'Enter')
    expect(await page.locator('#changes').innerText()).toMatch(/Run \d/)
    await page.fill('#find-key', 'missing')
    await page.press('#find-key', 'Enter')
    expect(await page.locator('main').innerText()).toContain('Expected: a key of the source contacts')
    await page.close()
  })

  test('works without JavaScript, and fits a phone', async () => {
    const page = await open('/', { javaScriptEnabled: false, viewport: { width: 360, height: 700 } })
    expect(await page.locator('.funnel').count()).toBe(2)
    expect(await page.locator('#chart svg').count()).toBe(1)
    await page.close()
    const phone = await open('/', { viewport: { width: 360, height: 700 } })
    await phone.locator('#chart canvas').waitFor()
    const fits = 'document.documentElement.scrollWidth <= innerWidth'
    expect(await phone.evaluate(fits)).toBe(true)
    await phone.goto(`${at}/row?source=contacts&key=3`)
    expect(await phone.evaluate(fits)).toBe(true)
    await phone.close()
  })

  test('passes axe in dark and light mode, and the keyboard skips to the content', async () => {
    const axe = await readFile(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
    for (const [path, colorScheme] of [
      ['/', 'dark'],
      ['/', 'light'],
      ['/row?source=contacts&key=3', 'dark'],
    ] as const) {
      const page = await open(path, { colorScheme })
      await page.evaluate(axe)
      const found = await page.evaluate(
        `axe.run().then((done) => done.violations.map((one) => one.id + ': ' + one.nodes.map((node) => node.html).join(' ')))`,
      )
      expect(found, `${path} ${colorScheme}`).toEqual([])
      await page.close()
    }
    const page = await open()
    await page.keyboard.press('Tab')
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to content')
    await page.close()
  })

  test('no page reported an error', () => {
    // The request for a missing row was answered 404.
    expect(complaints.filter((text) => !text.includes('404'))).toEqual([])
  })
})
