import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openBrowser } from '../test/support/browser.ts'

// Takes the pictures of docs/. Start a dashboard first, such as that of `npm start -- --keep`:
//   node scripts/screenshots.ts [http://127.0.0.1:8080]

const at = (process.argv[2] ?? 'http://127.0.0.1:8080').replace(/\/$/, '')

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
  for (const { path, file, ...look } of PICTURES) {
    const page = await browser.newPage(look)
    await page.goto(at + path, { waitUntil: 'load' })
    await page.screenshot({ path: new URL(`../docs/${file}.png`, import.meta.url).pathname })
    await page.close()
  }
} finally {
  await browser.close()
  await rm(profile, { recursive: true, force: true })
}
