import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { serveApp, type Stop } from '../../support/app-processes.ts'
import { browserProgram, openBrowser } from '../../support/browser.ts'
import { createCrm, withAccounts } from '../../support/crm.ts'
import { useHarness } from '../../support/harness.ts'
import { inspectPage } from '../../support/inspect-page.ts'

// A real browser on real runs. To install one: apt-get install -y chromium.
const skipped = browserProgram() === null
if (skipped)
  console.warn('the dashboard is not tested: there is no chromium here (apt-get install -y chromium)')

/** Every page of the dashboard, each with content. */
const PAGES =
  '/ /sources/contacts /rows /rows?source=accounts&state=not_enriched /runs /runs/new /runs/2 /system /row?source=contacts&key=3 /nowhere'.split(
    ' ',
  )

const NAVIGATION = ['Overview', 'Runs', 'Rows', 'Sources', 'System']

describe.skipIf(skipped)('the dashboard, in a browser', () => {
  let browser: Browser
  let profile: string
  let at: string
  let stop: Stop
  /** Errors of any page: failed scripts, or violations of the security policy. */
  const complaints: string[] = []

  const harness = useHarness({
    config: withAccounts,
    prepare: async ({ pool }) => {
      await createCrm(pool, 120, 8)
      await pool.query(`update crm.contacts set email = '<script>alert(1)</script>' where id in (1, 2)`)
    },
  })
  beforeAll(async () => {
    ;({ at, stop } = await serveApp(await harness.open()))
    await harness.run({ limit: 40 })
    await harness.run()
    profile = await mkdtemp(join(tmpdir(), 'fillrate-browser-'))
    browser = await openBrowser(profile)
  })
  afterAll(async () => {
    await browser?.close()
    await stop()
    await rm(profile, { recursive: true, force: true })
  })

  async function open(path = '/', options: BrowserContextOptions = {}): Promise<Page> {
    const page = await browser.newPage(options)
    page.on('pageerror', (error) => complaints.push(error.message))
    page.on('console', (message) => {
      if (['error', 'warning'].includes(message.type())) complaints.push(message.text())
    })
    await page.goto(at + path)
    return page
  }

  /** A click ends when the answer begins: the table is whole when the page is. */
  const keysOn = async (page: Page): Promise<string[]> => {
    await page.waitForLoadState()
    return page
      .locator('tbody th[scope=row] a')
      .evaluateAll((links) => links.map((link) => link.textContent ?? ''))
  }

  test('shows services and sources on the overview, and row states that add up on their pages', async () => {
    const page = await open()
    expect(await page.locator('#services tbody tr').count()).toBe(1)
    expect(await page.locator('#services').innerText()).toMatch(/idle\s+(?:–|\d+ calls)/)
    expect(await page.locator('#verdict').innerText()).toMatch(/^Nothing is wrong\./)
    expect(await page.locator('#runs tbody tr').count()).toBe(2)
    expect(await page.locator('nav a').allInnerTexts()).toEqual(NAVIGATION)
    for (const [source, picked] of [
      ['contacts', 120],
      ['accounts', 8],
    ] as const) {
      await page.goto(at)
      await page.locator('#sources a', { hasText: source }).click()
      await page.waitForLoadState()
      const numbers = await page.locator('.states td.n').allInnerTexts()
      const rows = numbers.map((text) => Number(text.replaceAll(',', '')))
      expect(rows.pop()).toBe(picked)
      expect(rows.reduce((sum, one) => sum + one, 0)).toBe(picked)
    }
    await page.goto(`${at}/sources/contacts`)
    const rows = await harness.query<{ share: string }>(
      // A run on a busy machine may leave its count out.
      `select round(100.0 * (f #>> '{filled,title}')::int / (f ->> 'eligible')::int, 1) || '%' as share
         from fillrate.runs, lateral (select totals #> '{fill_rates,contacts}' as f) c
        where f is not null order by id desc limit 1`,
    )
    const title = page.locator('.coverage tr', { hasText: 'title' })
    expect(await title.locator('td.n').first().innerText()).toBe(rows[0]?.share)
    // The entry leads to a source, and each source to the others.
    await page.locator('nav a', { hasText: 'Sources' }).click()
    await page.waitForURL(/\/sources\/contacts$/)
    await page.locator('.others a', { hasText: 'accounts' }).click()
    await page.waitForURL(/\/sources\/accounts$/)
    await page.close()
  })

  test('addresses that were pages are none', async () => {
    for (const path of [
      '/failures',
      '/audit',
      '/api/audit',
      '/events',
      '/services',
      '/spend',
      '/jobs',
      '/schedule',
      '/requests/1',
    ]) {
      const answer = await fetch(at + path, { headers: { accept: 'text/html' } })
      expect([path, answer.status]).toEqual([path, 404])
      expect(await answer.text()).toContain('Page not found')
    }
  })

  test('what a user does on a page survives what the page learns', async () => {
    const page = await open('/sources/contacts')
    await page.locator('#connection', { hasText: 'live' }).waitFor()
    const link = page.locator('#rows a', { hasText: 'All rows' })
    await link.focus()
    await page.evaluate('document.querySelector("main").dataset.old = "true"')
    await harness.query(
      `insert into fillrate.source_state (source, paused_at, paused_by, pause_reason) values ('contacts', now(), 'ben', 'a fair')
       on conflict (source) do update set paused_at = now(), paused_by = 'ben', pause_reason = 'a fair'`,
    )
    await page.locator('.about', { hasText: 'a fair' }).waitFor()
    expect(await page.locator('main[data-old]').count()).toBe(0)
    expect(await page.evaluate('document.activeElement.textContent')).toBe('All rows')
    await harness.query('update fillrate.source_state set paused_at = null, paused_by = null')
    await page.locator('.about', { hasText: 'a fair' }).waitFor({ state: 'detached' })
    await page.close()
  })

  test('updates live: a pause on one page shows on another', async () => {
    const [acting, watching] = [await open('/sources/accounts'), await open('/')]
    await watching.locator('#connection', { hasText: 'live' }).waitFor()
    await acting.locator('.actions a', { hasText: 'Pause' }).click()
    await acting.locator('form.confirm button').click()
    await watching.locator('#sources .badge', { hasText: 'paused' }).waitFor()
    const report = await harness.run()
    expect(report.reason).toContain('accounts is paused')
    await watching.locator('#runs th a', { hasText: '3' }).waitFor()
    await acting.goto(`${at}/sources/accounts`)
    await acting.locator('.actions a', { hasText: 'Resume' }).press('Enter')
    await acting.locator('form.confirm button').press('Enter')
    await watching.locator('#sources .badge', { hasText: 'paused' }).waitFor({ state: 'detached' })
    await Promise.all([acting.close(), watching.close()])
  })

  test('rows: a search by e-mail or key, filters, pages there and back', async () => {
    const page = await open('/rows')
    const first = await keysOn(page)
    expect(first).toHaveLength(50)
    await page.click('a[rel=next]')
    await page.click('a[rel=next]')
    const last = await keysOn(page)
    expect(last).toHaveLength(28)
    expect(await page.locator('a[rel=next]').count()).toBe(0)
    await page.goBack()
    await page.goBack()
    expect(await keysOn(page)).toEqual(first)

    const people = await harness.query<{ email: string }>('select email from crm.contacts where id = 33')
    await page.fill('#find', ` ${people[0]?.email.toUpperCase()} `)
    await page.press('#find', 'Enter')
    expect(await keysOn(page)).toEqual(['33'])
    await page.fill('#find', '7')
    await page.press('#find', 'Enter')
    expect(await keysOn(page)).toEqual(['7', '7'])
    await page.selectOption('.filters [name=source]', 'contacts')
    await page.click('.filters button')
    expect(await keysOn(page)).toEqual(['7'])
    await page.fill('#find', 'nobody@nowhere.example')
    await page.press('#find', 'Enter')
    await page.locator('main', { hasText: 'No row matches.' }).waitFor()

    await page.goto(`${at}/rows?source=contacts`)
    const byKey = await harness.query<{ key: string }>(
      `select key from fillrate.rows where source = 'contacts' order by key limit 50`,
    )
    expect(await keysOn(page)).toEqual(byKey.map(({ key }) => key))
    await page.selectOption('.filters [name=state]', 'enriched')
    await page.fill('.filters [name=run]', '2')
    await page.click('.filters button')
    const expected = await harness.query<{ key: string }>(
      `select key from fillrate.rows where source = 'contacts' and state = 'enriched' and run_id = 2
        order by key`,
    )
    expect(expected.length).toBeGreaterThan(10)
    expect(await keysOn(page)).toEqual(expected.slice(0, 50).map(({ key }) => key))
    await page.close()
  })

  test('a reason leads to its rows, a run to its rows, a row to its history; values are escaped', async () => {
    const page = await open('/rows')
    await page.locator('#reasons a', { hasText: 'email' }).first().click()
    expect(await keysOn(page)).toEqual(['1', '2'])
    await page.locator('tbody th a').first().click()
    expect(await page.locator('h1').innerText()).toContain('1')
    expect(await page.locator('#values').innerText()).toContain('<script>alert(1)</script>')
    await page.goto(`${at}/row?source=contacts&key=3`)
    expect(await page.locator('#changes').innerText()).toMatch(/Run \d/)
    const missing = await page.goto(`${at}/row?source=contacts&key=missing`)
    expect(missing?.status()).toBe(404)
    expect(await page.locator('main').innerText()).toContain('Expected: a key of the source contacts')

    await page.goto(`${at}/runs/2`)
    await page.locator('#rows .states a').first().click()
    expect(page.url()).toContain('run=2')
    await page.close()
  })

  test('every link of every page leads to a page', async () => {
    const paths = new Set(['/'])
    const dead: string[] = []
    // A page adds what it links to, which is then visited as well.
    for (const path of paths) {
      const answer = await fetch(at + path, { headers: { accept: 'text/html' } })
      if (!answer.ok) dead.push(`${path}: ${answer.status}`)
      if (answer.headers.get('content-type')?.startsWith('text/html') !== true) continue
      for (const [, link = ''] of (await answer.text()).matchAll(/href="(\/[^"#]*)/g))
        paths.add(link.replaceAll('&amp;', '&'))
    }
    expect(dead).toEqual([])
    // Each row, and each way in which rows are listed.
    expect(paths.size).toBeGreaterThan(128)
  })

  test('the zone of all times is chosen once, and holds on every page', async () => {
    const context = await browser.newContext({ timezoneId: 'Asia/Kolkata' })
    const page = await context.newPage()
    await page.goto(`${at}/runs/2`)
    const clock = page.locator('time.clock').first()
    const iso = (await clock.getAttribute('datetime')) ?? ''
    expect(await clock.innerText()).toBe(`${iso.slice(0, 19).replace('T', ' ')} UTC`)
    await page.click('#zone [data-zone=local]')
    const local = new Date(Date.parse(iso) + 5.5 * 3_600_000).toISOString().slice(0, 19).replace('T', ' ')
    expect(await clock.innerText()).toBe(`${local} UTC+5:30`)
    await page.goto(`${at}/rows`)
    expect(await page.locator('#zone [data-zone=local]').getAttribute('aria-pressed')).toBe('true')
    expect(await page.locator('tbody time').first().getAttribute('title')).toContain('UTC+5:30')
    await context.close()
  })

  test('works without JavaScript', async () => {
    const page = await open('/', { javaScriptEnabled: false })
    expect(await page.locator('#verdict').innerText()).not.toBe('')
    await page.goto(`${at}/rows?state=invalid_input`)
    expect(await page.locator('time').first().getAttribute('title')).toContain('UTC')
    await page.close()
  })

  test('every page passes axe in dark and light mode, fits a phone, and the keyboard skips to its content', async () => {
    const page = await open()
    const findings: string[] = []
    for (const path of PAGES) {
      await page.goto(at + path)
      findings.push(...(await inspectPage(page)).map((text) => `${path}: ${text}`))
    }
    expect(findings).toEqual([])
    await page.goto(at)
    await page.keyboard.press('Tab')
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to content')
    await page.close()
  })

  test('without the schema a page says so, and loads again when it is there', async () => {
    const page = await open('/runs')
    await page.clock.install()
    await harness.query('alter schema fillrate rename to gone')
    try {
      expect((await page.goto(`${at}/runs`))?.status()).toBe(503)
      expect(await page.locator('h1').innerText()).toContain('The schema "fillrate" does not fit')
      expect(await page.locator('main').innerText()).toContain('fillrate migrate')
    } finally {
      await harness.query('alter schema gone rename to fillrate')
    }
    await page.clock.fastForward(10_000)
    await page.locator('h1', { hasText: 'Runs' }).waitFor()
    await page.close()
  })

  test('no page reported an error', () => {
    // A row, a page and a schema that do not exist.
    expect(complaints.filter((text) => !/404|503/.test(text))).toEqual([])
  })
})
