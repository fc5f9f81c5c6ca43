import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Page } from 'playwright-core'
import { openBrowser } from '../test/support/browser.ts'
import { inspectPage } from '../test/support/inspect-page.ts'

// Visits each page that a dashboard links to: axe in both colour schemes, narrow windows, errors of the page's script.
// Exits with 1 on a finding. Start a dashboard first, such as that of `npm start -- --keep`:
//   node scripts/screenshots.ts [--docs] [http://127.0.0.1:8080]
//   --docs takes the pictures of docs/, too

const { values, positionals } = parseArgs({
  options: { docs: { type: 'boolean', default: false } },
  allowPositionals: true,
})
const at = (positionals[0] ?? 'http://127.0.0.1:8080').replace(/\/$/, '')

const WINDOW = { width: 1240, height: 900 }
const PHONE = { width: 390, height: 844 }
const PICTURES = [
  { path: '/', colorScheme: 'dark', viewport: WINDOW, file: 'dashboard-running' },
  { path: '/', colorScheme: 'light', viewport: PHONE, file: 'dashboard-phone' },
  { path: '/runs/1', colorScheme: 'light', viewport: WINDOW, file: 'dashboard-run' },
  { path: '/rows', colorScheme: 'light', viewport: WINDOW, file: 'dashboard-rows' },
] as const

const profile = await mkdtemp(join(tmpdir(), 'fillrate-browser-'))
const browser = await openBrowser(profile)
try {
  if (values.docs) await takePictures()
  const page = await browser.newPage({ viewport: WINDOW })
  const findings = await visitAll(page)
  for (const finding of findings) console.error(finding)
  if (findings.length > 0) process.exitCode = 1
} finally {
  await browser.close()
  await rm(profile, { recursive: true, force: true })
}

async function takePictures(): Promise<void> {
  for (const { path, file, ...look } of PICTURES) {
    const page = await browser.newPage(look)
    await page.goto(at + path, { waitUntil: 'load' })
    await page.screenshot({ path: new URL(`../docs/${file}.png`, import.meta.url).pathname })
    await page.close()
  }
}

/** Follows the links from the overview; of pages that differ by a number, a key or a filter it visits one. */
async function visitAll(page: Page): Promise<string[]> {
  const findings: string[] = []
  let path = '/'
  page.on('pageerror', (error) => findings.push(`${path}: ${error.message}`))
  const seen = new Set([toKind(path)])
  const waiting = [path]
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    path = next
    const response = await page.goto(at + path)
    if (response?.headers()['content-type']?.startsWith('text/html') !== true) continue
    findings.push(...(await inspectPage(page)).map((text) => `${path}: ${text}`))
    for (const link of await listLinks(page)) {
      if (seen.has(toKind(link))) continue
      seen.add(toKind(link))
      waiting.push(link)
    }
  }
  console.log(`${seen.size} pages`)
  return findings
}

function toKind(path: string): string {
  const { pathname, searchParams } = new URL(path, at)
  return `${pathname.replaceAll(/\d+/g, 'N')}?${[...searchParams.keys()].toSorted().join('&')}`
}

/** Paths of this dashboard; a file is downloaded by its link, and is no page. */
function listLinks(page: Page): Promise<string[]> {
  return page.evaluate(`[...document.querySelectorAll('a[href]:not([download])')]
    .filter((link) => link.origin === location.origin && !/\\.(csv|json)$/.test(link.pathname))
    .map((link) => link.pathname + link.search)`)
}
