import { spawn, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { dockerfileStages, type Step } from './dockerfile.ts'

// Executes the Dockerfile without a Docker engine, with an empty folder for each stage: node scripts/try-image.ts. It cannot test
// the base image and its user.

const ROOT = new URL('../', import.meta.url).pathname
const place = mkdtempSync(join(tmpdir(), 'fillrate-image-'))
try {
  const stages = dockerfileStages(readFileSync(join(ROOT, 'Dockerfile'), 'utf8'))
  for (const [name, steps] of stages) for (const step of steps) act(join(place, name), step)
  const [last = ''] = [...stages.keys()].slice(-1)
  const size = spawnSync('du', ['-sm', join(place, last)], { encoding: 'utf8' }).stdout.split('\t')[0]
  console.log(`\n${size} MB beside the base image`)
  await tryEntry(join(place, last))
} finally {
  rmSync(place, { recursive: true, force: true })
}

function act(stage: string, step: Step): void {
  const inStage = (path: string): string => join(stage, path.startsWith('/') ? path : join('app', path))
  switch (step.word) {
    case 'COPY': {
      const [to = '', ...from] = step.rest.toReversed()
      const base = step.from === null ? ROOT : join(place, step.from)
      for (const one of from) {
        const target = from.length > 1 || to.endsWith('/') ? join(inStage(to), basename(one)) : inStage(to)
        mkdirSync(dirname(target), { recursive: true })
        cpSync(join(base, one), target, { recursive: true })
      }
      return
    }
    case 'RUN': {
      console.log(`${stage.split('/').at(-1)}: ${step.text}`)
      const ran = spawnSync('sh', ['-c', step.text], { cwd: join(stage, 'app'), encoding: 'utf8' })
      if (ran.status !== 0) throw new Error(`${step.text}\n${ran.stdout}${ran.stderr}`)
    }
  }
}

/** Tests the entry command as far as possible without a database. */
async function tryEntry(stage: string): Promise<void> {
  const main = join(stage, 'app/dist/src/main.js')
  const version = spawnSync(process.execPath, [main, '--version'], { encoding: 'utf8' })
  console.log(`version: ${version.stdout.trim()}`)
  if (version.status !== 0) throw new Error(version.stderr)
  const sandbox = await startServer(stage, ['sandbox', '--port', '0', '--json'], {})
  console.log(`sandbox: ${(await fetch(`${sandbox.url}/_stats`)).status} at ${sandbox.url}`)
  sandbox.stop()
  // Without Postgres it waits, and serves what needs none, a file of ours among it.
  cpSync(join(ROOT, 'deploy/compose/fillrate.config.ts'), join(stage, 'fillrate.config.ts'))
  const daemon = await startServer(stage, ['start', '--port', '0', '--json'], {
    DATABASE_URL: 'postgres://fillrate@127.0.0.1:1/crm',
    FILLRATE_BASE_URL: sandbox.url,
    FILLRATE_API_KEY: 'key',
  })
  for (const path of ['/healthz', '/assets/board.js']) {
    const { status } = await fetch(daemon.url + path)
    console.log(`start: ${status} at ${path}`)
    if (status !== 200) throw new Error(`${path} is not in the image`)
  }
  daemon.stop()
}

async function startServer(
  stage: string,
  words: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<{ readonly url: string; readonly stop: () => void }> {
  const child = spawn(process.execPath, [join(stage, 'app/dist/src/main.js'), ...words], {
    cwd: stage,
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const line = await new Promise<string>((resolve) =>
    child.stdout.once('data', (text: Buffer) => resolve(String(text).split('\n')[0] ?? '')),
  )
  const { url, listens } = JSON.parse(line) as { url?: string; listens?: string }
  return { url: url ?? listens ?? '', stop: () => void child.kill('SIGKILL') }
}
