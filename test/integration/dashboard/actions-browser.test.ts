import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { relativeTime } from '../../../src/util/text.ts'
import { browserProgram } from '../../support/browser.ts'
import {
  OPERATOR,
  openBrowserDashboard,
  READER,
  type BrowserDashboard,
} from '../../support/browser-dashboard.ts'
import type { Harness } from '../../support/harness.ts'
import { inspectPage } from '../../support/inspect-page.ts'

/** The element with the keyboard, its name, and whether a user sees that it has it. */
const FOCUSED = `(() => {
  const one = document.activeElement
  if (one === null || one === document.body) return { name: '', path: '', isVisible: true, isInMain: false, isInTop: false }
  const { outlineStyle, outlineWidth } = getComputedStyle(one)
  const box = one.getBoundingClientRect()
  const x = Math.min(box.left + box.width / 2, innerWidth - 1)
  const y = box.top + Math.min(box.height, 8) / 2
  const top = document.elementFromPoint(x, y)
  const isShown = box.width > 1 && box.height > 1 && box.top >= 0 && box.top < innerHeight
  const isCovered = top === null || !(one.contains(top) || top.contains(one))
  const label = one.labels?.[0]?.textContent ?? one.getAttribute('aria-label') ?? one.textContent
  return {
    name: (label ?? '').replace(/\\s+/g, ' ').trim(),
    path: one.id === '' ? (one.name || one.getAttribute('href') || one.tagName) : '#' + one.id,
    isVisible: outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2 && isShown && !isCovered,
    isInMain: document.getElementById('main')?.contains(one) ?? false,
  }
})()`

interface Focused {
  readonly name: string
  readonly path: string
  readonly isVisible: boolean
  readonly isInMain: boolean
}

/** More than any page has stops. */
const MOST_STOPS = 400

describe.skipIf(browserProgram() === null)('actions on the dashboard, by keyboard alone', () => {
  let dashboard: BrowserDashboard
  let harness: Harness
  let browser: Browser
  let context: BrowserContext
  let page: Page
  let at: string
  const unseen = new Set<string>()

  beforeAll(async () => {
    dashboard = await openBrowserDashboard()
    ;({ harness, browser, context, page, at } = dashboard)
  })
  afterAll(() => dashboard.close())

  const readFocus = (): Promise<Focused> => page.evaluate(FOCUSED)

  async function press(key: string): Promise<Focused> {
    await page.keyboard.press(key)
    // What a user sees is what the next frames show.
    await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))')
    const focused = await readFocus()
    if (!focused.isVisible) unseen.add(`${new URL(page.url()).pathname}: ${focused.path} ${focused.name}`)
    return focused
  }

  /** Moves on to the next stop of this name, or this path. */
  async function tabTo(wanted: string | RegExp, key = 'Tab'): Promise<Focused> {
    const isWanted = ({ name, path }: Focused): boolean =>
      typeof wanted === 'string' ? name === wanted || path === wanted : wanted.test(name) || wanted.test(path)
    const seen: string[] = []
    for (let stop = 0; stop < MOST_STOPS; stop++) {
      const focused = await press(key)
      if (isWanted(focused)) return focused
      seen.push(focused.name)
    }
    throw new Error(`${page.url()} has no stop ${String(wanted)}, only ${[...new Set(seen)].join(', ')}`)
  }

  /** Follows a link or presses a button, and waits for the page that it leads to. */
  async function enter(wanted: string | RegExp, next: RegExp): Promise<void> {
    await tabTo(wanted)
    await Promise.all([page.waitForURL(next), page.keyboard.press('Enter')])
  }

  const heading = (text: string): Promise<void> => page.locator('h1', { hasText: text }).waitFor()

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
    await reader.route(`${at}/nowhere`, async (route) => {
      const answer = await route.fetch()
      const list = times.map((one) => `<time datetime="${one.toISOString()}">not read</time>`).join('')
      await route.fulfill({
        response: answer,
        body: (await answer.text()).replace('</main>', `${list}</main>`),
      })
    })
    await reader.goto(`${at}/nowhere`)
    await expect.poll(() => reader.locator('time', { hasText: 'not read' }).count()).toBe(0)
    expect(await reader.locator('time').allInnerTexts()).toEqual(times.map((one) => relativeTime(one, now)))
    await reading.close()
  })

  test('without a token a page says what it needs; with one it opens, and skips to the content', async () => {
    // Chromium asks its user for a password, and has none here.
    const asked = await browser.newPage()
    await expect(asked.goto(`${at}/rows`)).rejects.toThrow('ERR_INVALID_AUTH_CREDENTIALS')
    await asked.close()
    const stranger = await browser.newPage({ httpCredentials: { username: 'anna', password: 'wrong' } })
    expect((await stranger.goto(`${at}/rows`))?.status()).toBe(401)
    expect(await stranger.locator('main').innerText()).toContain('FILLRATE_DASHBOARD_TOKEN')
    expect((await inspectPage(stranger)).map((text) => `denied: ${text}`)).toEqual([])
    await stranger.close()
    await page.goto(`${at}/`)
    expect(await press('Tab')).toMatchObject({ name: 'Skip to content', isVisible: true })
    await page.keyboard.press('Enter')
    expect((await press('Tab')).isInMain).toBe(true)
    const chat = await context.newPage()
    await chat.route('https://chat.example/', (route) =>
      route.fulfill({ contentType: 'text/html', body: `<a href="${at}/runs/new">open</a>` }),
    )
    await chat.goto('https://chat.example/')
    await chat.locator('a').click()
    await chat.waitForURL(`${at}/runs/new`)
    await chat.close()
  })

  test('previews and starts a run, and cancels its form', async () => {
    await enter('Start a run', /\/runs\/new/)
    await enter('Cancel', /\/$/)
    await enter('Start a run', /\/runs\/new/)
    await tabTo('#budget')
    await page.keyboard.type('lots')
    await enter('Preview', /\/runs\/start/)
    expect(await page.locator('#source-fault').innerText()).toBe('Choose at least one source.')
    expect(await page.locator('#budget-fault').innerText()).toContain('whole number')
    await inspect('run-form')
    for (const source of ['contacts', 'accounts']) {
      await tabTo(source, source === 'accounts' ? 'Shift+Tab' : 'Tab')
      if (!(await page.getByLabel(source).isChecked())) await page.keyboard.press('Space')
      expect(await page.getByLabel(source).isChecked()).toBe(true)
    }
    await tabTo('#budget')
    await page.keyboard.type('80')
    await enter('Preview', /\/runs\/start/)
    await heading('Start this run?')
    expect(await page.locator('#plan .figure').innerText()).toMatch(/^\d+ lookups/)
    await inspect('run-preview')
    await enter('Start the run', /\/runs\?requested=1$/)
    await page.locator('#runs th a', { hasText: '1' }).waitFor()
    await enter(/^\/runs\/1$/, /\/runs\/1$/)
    await expect
      .poll(async () => (await page.reload(), page.locator('main').innerText()))
      .toContain('completed')
    await inspect('run')
  })

  test('queues failed rows again', async () => {
    await enter('Rows', /\/rows$/)
    await enter('Retry', /\/retry/)
    await heading('Retry failed rows')
    await inspect('retry')
    await enter(/queue|retry/i, /\/runs\/new/)
    expect(await page.locator('.notice.good').innerText()).toContain('queued again')
  })

  test('moves through the rows, and filters them', async () => {
    await enter('Rows', /\/rows$/)
    await enter('Next →', /after=/)
    await page.goBack()
    await tabTo('source')
    await page.keyboard.type('contacts')
    await enter('Show', /source=contacts/)
    await tabTo('#find')
    await page.keyboard.type('nobody')
    await page.keyboard.press('Escape')
    expect(await page.inputValue('#find')).toBe('')
    await page.keyboard.type('1')
    await page.keyboard.press('Enter')
    await page.waitForURL(/q=1/)
  })

  test('pauses a source, and resumes it without JavaScript', async () => {
    await enter('Sources', /\/sources\/contacts$/)
    await enter('Pause', /\/pause$/)
    await inspect('pause')
    await tabTo('#reason')
    await page.keyboard.type('trade fair')
    await enter(/^Pause/, /\/sources\/contacts$/)
    await enter('Resume', /\/resume$/)
    await inspect('resume')
    const httpCredentials = { username: 'anna', password: OPERATOR }
    const plain = await browser.newContext({ javaScriptEnabled: false, httpCredentials })
    const without = await plain.newPage()
    await without.goto(`${at}/sources/contacts/resume`)
    expect(await without.locator('main').innerText()).toContain('paused by anna because: trade fair')
    await without.locator('.confirm button').click()
    await plain.close()
    expect(await harness.count('fillrate.source_state where paused_at is not null')).toBe(0)
  })

  test('tries a service at once, and says what came of it', async () => {
    await page.goto(`${at}/`)
    await enter('Try now', /\/services\/.*\/try$/)
    await inspect('try')
    await Promise.all([
      page.waitForResponse(/\/try$/),
      tabTo('Try now').then(() => page.keyboard.press('Enter')),
    ])
    await page.locator('.notice.good', { hasText: 'the next lookup is tried at once' }).waitFor()
    expect(await harness.query('select from fillrate.services where try_at is not null')).toHaveLength(1)
  })

  test('lists who did what, and shows it to a reader without any button', async () => {
    await page.goto(`${at}/system`)
    const actions = await page.locator('#audit tbody th').allInnerTexts()
    expect(actions).toEqual(['try now', 'resume', 'pause', 'retry', 'run'])
    expect(await page.locator('#audit tbody tr').last().innerText()).toMatch(/anna[\s\S]*accounts[\s\S]*done/)
    await inspect('system')
    const reading = await browser.newContext({ httpCredentials: { username: 'any', password: READER } })
    const reader = await reading.newPage()
    await reader.goto(`${at}/`)
    // What the page shows later must not bring the buttons back.
    await reader.locator('#connection', { hasText: 'live' }).waitFor()
    expect(await reader.locator('main a.button').count()).toBe(0)
    expect(await page.goto(at).then(() => page.locator('main a.button').count())).toBeGreaterThan(0)
    expect((await reader.goto(`${at}/runs/new`))?.status()).toBe(403)
    await reading.close()
  })

  test('what is stored of deleted rows is held, and how to erase it is said', async () => {
    await harness.query(
      `with gone as (select key from fillrate.rows where source = 'contacts' order by key limit 15)
       delete from crm.contacts where id::text in (select key from gone)`,
    )
    await harness.run({ sources: ['contacts'], budget: 0 })
    // What was read a moment ago may be shown again.
    await expect
      .poll(async () => (await page.goto(`${at}/`), page.locator('#verdict').innerText()))
      .toMatch(/15 rows of contacts are gone from the table[\s\S]*fillrate forget --deleted contacts/)
    await inspect('deleted rows')
  })

  test('cancels a run', async () => {
    await harness.query(
      `insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until)
       values ('manual', '{contacts}', 'running', 'a process', gen_random_uuid(), now() + interval '1 hour')`,
    )
    await enter('Runs', /\/runs$/)
    await enter(/^\/runs\/\d+$/, /\/runs\/\d+$/)
    await enter('Cancel', /\/cancel$/)
    await inspect('cancel')
    await enter(/^Cancel run/, /\/runs\/\d+$/)
    const rows = await harness.query(
      `delete from fillrate.runs where owner = 'a process' returning cancelled_by`,
    )
    expect(rows).toEqual([{ cancelled_by: 'anna' }])
  })

  test('each stop was seen to have the keyboard, in front of everything', () => {
    expect([...unseen]).toEqual([])
    expect(dashboard.complaints.filter((text) => !/\b(?:401|422)\b/.test(text))).toEqual([])
  })
})
