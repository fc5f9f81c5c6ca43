import pg from 'pg'
import pino from 'pino'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type PassRequest, openApp } from '../src/app.ts'
import { FULL_DEMO, demoConfig, startDemoService } from '../src/demo/settings.ts'
import { createCrm } from '../src/demo/crm/crm.ts'
import { readEnvironment } from '../src/config/environment.ts'
import { migrate } from '../src/store/migrate.ts'
import { openBrowser } from '../test/support/browser.ts'
import { startEmbeddedPostgres } from '../test/support/embedded-postgres.ts'

// Takes the dashboard screenshots of docs/: npm run screenshots. Real runs on the demo's data.

const DOCS = new URL('../docs/', import.meta.url).pathname
const postgres = await startEmbeddedPostgres(['max_connections=50'])
const profile = await mkdtemp(join(tmpdir(), 'fillrate-browser-'))
const service = await startDemoService(FULL_DEMO)
const client = new pg.Client({ connectionString: postgres.url })
await client.connect()
await createCrm(client, FULL_DEMO)
const app = await openAfterMigration()
const stop = new AbortController()
const listening = Promise.withResolvers<string>()
const served = app.serve({ signal: stop.signal, onListening: (at) => listening.resolve(at ?? '') })
const browser = await openBrowser(profile)
try {
  const at = await listening.promise
  console.log(at)
  const pass: PassRequest & { waitMs: number } = {
    sources: [],
    limit: null,
    where: null,
    route: 'auto',
    waitMs: 60_000,
    signal: new AbortController().signal,
  }
  await app.run({ ...pass, sources: ['accounts'], limit: 200 })
  await app.run({ ...pass, sources: ['contacts'], limit: 60, dryRun: { sample: 5 } })
  const working = app.run(pass)
  await new Promise((resolve) => setTimeout(resolve, 7_000))
  await takeScreenshot(at, 'dashboard-running', { colorScheme: 'dark', width: 1240 })
  await working
  await client.query(
    `insert into crm.contacts (first_name, last_name, email) values ('Ada', 'Berg', 'ada.berg@nordlys.example')`,
  )
  await app.run(pass)
  await takeScreenshot(at, 'dashboard-dark', { colorScheme: 'dark', width: 1240 })
  await takeScreenshot(at, 'dashboard-light', { colorScheme: 'light', width: 1240 })
  await takeScreenshot(at, 'dashboard-phone', { colorScheme: 'light', width: 390 })
  const { rows } = await client.query<{ key: string }>(
    `select key from fillrate.changes where source = 'contacts' order by id limit 1 offset 40`,
  )
  await takeScreenshot(`${at}/row?source=contacts&key=${rows[0]?.key}`, 'dashboard-row', {
    colorScheme: 'light',
    width: 1240,
  })
  if (process.argv.includes('--sizes'))
    console.table(
      (
        await client.query(
          `select relname, n_live_tup as rows, pg_total_relation_size(relid) as bytes from pg_stat_user_tables where schemaname = 'fillrate' order by 3 desc`,
        )
      ).rows,
    )
  if (process.argv.includes('--stay')) await new Promise((resolve) => process.once('SIGINT', resolve))
} finally {
  await browser.close()
  stop.abort()
  await served
  await app.close()
  await client.end()
  await service.close()
  await postgres.stop()
  await rm(profile, { recursive: true, force: true })
}

async function openAfterMigration() {
  const environment = readEnvironment({
    DATABASE_URL: postgres.url,
    FILLRATE_BASE_URL: service.url,
    FILLRATE_API_KEY: service.keys.join(','),
    FILLRATE_WEBHOOK_SECRET: service.webhookSecret,
    FILLRATE_PORT: '4020',
  })
  const { openDatabase } = await import('../src/store/open.ts')
  const db = openDatabase({ url: postgres.url, max: 1 })
  await migrate(db)
  await db.destroy()
  return openApp({ config: demoConfig(FULL_DEMO), environment, log: pino({ level: 'warn' }) })
}

async function takeScreenshot(
  url: string,
  name: string,
  { width, colorScheme }: { readonly width: number; readonly colorScheme: 'dark' | 'light' },
): Promise<void> {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme })
  await page.goto(url)
  if (!url.includes('/row')) await page.locator('#chart canvas').waitFor()
  await page.waitForTimeout(500)
  await page.screenshot({ path: `${DOCS}${name}.png`, fullPage: true })
  await page.close()
}
