import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
/** A small phone, a tablet upright, the narrowest window with tables, a small laptop, a window beside another. */
const WIDTHS = [360, 768, 961, 1_024, 1_240]

/**
 * Holds a page, as it stands, against axe in both colour schemes and against narrow windows. The page keeps the size
 * it had.
 * @returns what is wrong, an entry each; empty if nothing is
 */
export async function inspectPage(page: Page): Promise<string[]> {
  const size = page.viewportSize()
  await page.evaluate(AXE)
  await page.emulateMedia({ colorScheme: 'dark' })
  const dark = await runAxe(page)
  await page.emulateMedia({ colorScheme: 'light' })
  // Nothing but the colours depends on the scheme, and all rules take three times as long.
  const light = await runAxe(page, { runOnly: { type: 'rule', values: ['color-contrast'] } })
  const overflows: string[] = []
  for (const width of WIDTHS) {
    await page.setViewportSize({ width, height: 800 })
    const tooMuch = await page.evaluate(
      'document.documentElement.scrollWidth - document.documentElement.clientWidth',
    )
    if (tooMuch !== 0) overflows.push(`${String(tooMuch)} px too wide for ${width} px`)
  }
  if (size !== null) await page.setViewportSize(size)
  return [...dark.map((text) => `dark: ${text}`), ...light.map((text) => `light: ${text}`), ...overflows]
}

/** Without what only its own reports use: the selector of every node takes as long as the rules. */
const FAST = { resultTypes: ['violations'], selectors: false, preload: false, iframes: false }

const runAxe = (page: Page, options: object = {}): Promise<string[]> =>
  page.evaluate(
    `axe.run(${JSON.stringify({ ...FAST, ...options })}).then(({ violations }) =>
       violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' ')))`,
  )
