import { existsSync } from 'node:fs'
import { chromium, type Browser, type BrowserContext, type BrowserContextOptions } from 'playwright-core'

/** Installed by the system; `playwright-core` brings no browser. */
const PROGRAMS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']

/** The path of a browser; null if this machine has none. */
export const browserProgram = (): string | null => PROGRAMS.find((path) => existsSync(path)) ?? null

/** Opens a browser without background requests. @param profile a folder of its own, which the test deletes */
export async function openBrowser(profile: string): Promise<Browser> {
  const executablePath = browserProgram()
  if (executablePath === null) throw new Error('there is no chromium: apt-get install -y chromium')
  const browser = await chromium.launch({
    executablePath,
    args: [
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
    ],
    env: { ...process.env, HOME: profile, XDG_CONFIG_HOME: profile, XDG_CACHE_HOME: profile },
  })
  const newContext = browser.newContext.bind(browser)
  const newPage = browser.newPage.bind(browser)
  return Object.assign(browser, {
    newContext: async (options?: BrowserContextOptions) => withPatience(await newContext(options)),
    newPage: async (options?: BrowserContextOptions) => withPatience(await newPage(options)),
  })
}

/** As long as every other wait of a test: a limit for a hanging test only. */
const WAIT_MS = 120_000

function withPatience<T extends Pick<BrowserContext, 'setDefaultTimeout'>>(waiting: T): T {
  waiting.setDefaultTimeout(WAIT_MS)
  return waiting
}
