import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { browserProgram } from '../../support/browser.ts'
import { type BrowserDashboard, OPERATOR, openBrowserDashboard } from '../../support/browser-dashboard.ts'

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

describe.skipIf(browserProgram() === null)('the dashboard, by keyboard alone', () => {
  let dashboard: BrowserDashboard
  let page: Page
  const unseen = new Set<string>()

  beforeAll(async () => {
    dashboard = await openBrowserDashboard()
    page = dashboard.page
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

  test('signs in, and skips to the content', async () => {
    await page.goto(`${dashboard.at}/`)
    expect((await readFocus()).path).toBe('#token')
    await page.keyboard.type(OPERATOR)
    await page.keyboard.press('Enter')
    await page.waitForURL(`${dashboard.at}/`)
    expect(await press('Tab')).toMatchObject({ name: 'Skip to content', isVisible: true })
    await page.keyboard.press('Enter')
    expect((await press('Tab')).isInMain).toBe(true)
  })

  test('starts a run, and cancels its form', async () => {
    await enter('Start a run', /\/runs\/new/)
    await enter('Cancel', /\/$/)
    await enter('Start a run', /\/runs\/new/)
    for (const source of ['contacts', 'accounts']) {
      await tabTo(source, source === 'accounts' ? 'Shift+Tab' : 'Tab')
      if (!(await page.getByLabel(source).isChecked())) await page.keyboard.press('Space')
      expect(await page.getByLabel(source).isChecked()).toBe(true)
    }
    await tabTo('#budget')
    await page.keyboard.type('80')
    await enter('Preview', /\/runs\/start/)
    await heading('Start this run?')
    await enter('Start the run', /\/runs\/1$/)
    await expect
      .poll(async () => (await page.reload(), page.locator('main').innerText()))
      .toContain('completed')
  })

  test('queues failed rows again', async () => {
    await enter('Failures', /\/failures$/)
    await enter('Retry', /\/retry/)
    await heading('Retry failed rows')
    await enter(/queue|retry/i, /\/runs\/new|\/retry|\/failures/)
    expect(await page.locator('.notice.good').innerText()).toContain('queued again')
  })

  test('moves through the rows, and filters them', async () => {
    await enter('Rows', /\/rows$/)
    await enter('Next →', /after=/)
    await enter('← Previous', /before=/)
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

  test('pauses and resumes a source', async () => {
    await enter('Sources', /\/sources$/)
    await enter('contacts', /\/sources\/contacts$/)
    await enter('Pause', /\/pause$/)
    await tabTo('#reason')
    await page.keyboard.type('trade fair')
    await tabTo('#for')
    await page.keyboard.press('ArrowDown')
    await enter(/^Pause/, /\/sources\/contacts$/)
    await enter('Resume', /\/resume$/)
    await enter(/^Resume/, /\/sources\/contacts$/)
    expect(await dashboard.harness.database.pool.query('select from fillrate.paused_sources')).toMatchObject({
      rowCount: 0,
    })
  })

  test('cancels a run, and signs out', async () => {
    await dashboard.harness.query(
      `insert into fillrate.runs (trigger, sources, state, owner, lease_token, leased_until)
       values ('manual', '{contacts}', 'running', 'a process', gen_random_uuid(), now() + interval '1 hour')`,
    )
    await enter('Runs', /\/runs$/)
    await enter(/^\/runs\/\d+$/, /\/runs\/\d+$/)
    await enter('Cancel', /\/cancel$/)
    await enter(/^Cancel run/, /\/runs\/\d+$/)
    const rows = await dashboard.harness.query(
      `delete from fillrate.runs where owner = 'a process' returning cancelled_by`,
    )
    expect(rows).toEqual([{ cancelled_by: 'anna' }])
    await enter('Sign out', /\/login$/)
  })

  test('each stop was seen to have the keyboard, in front of everything', () => {
    expect([...unseen]).toEqual([])
    expect(dashboard.complaints.filter((text) => !/\b(?:401|422)\b/.test(text))).toEqual([])
  })
})
