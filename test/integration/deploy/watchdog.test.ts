import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { expect, test } from 'vitest'

test('the watchdog of systemd is pinged while the process runs, and only by the process that it watches', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'fillrate-watchdog-'))
  const pings = join(folder, 'pings')
  await writeFile(join(folder, 'systemd-notify'), `#!/bin/sh\necho "$1" >> ${pings}\n`)
  await chmod(join(folder, 'systemd-notify'), 0o755)
  const start = (watched: string) => {
    const main = resolve('src/main.ts')
    const env = {
      PATH: `${folder}:${dirname(process.execPath)}:/usr/bin:/bin`,
      NOTIFY_SOCKET: '/nowhere',
      WATCHDOG_USEC: '100000',
    }
    const command = `WATCHDOG_PID=${watched} exec node ${main} sandbox --port 0 --json`
    return spawn('sh', ['-c', command], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  }
  const read = (): Promise<string> => readFile(pings, 'utf8').catch(() => '')
  const children = [start('1')]
  try {
    await Promise.all(children.map((child) => once(child.stdout, 'data')))
    expect(await read()).toBe('')
    const watched = start('$$')
    children.push(watched)
    await expect.poll(async () => (await read()).split('\n').slice(0, 3)).toEqual(Array(3).fill('WATCHDOG=1'))
  } finally {
    for (const child of children) {
      child.kill('SIGKILL')
      await once(child, 'exit').catch(() => {})
    }
    await rm(folder, { recursive: true, force: true })
  }
})
