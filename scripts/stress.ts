import { spawn, type ChildProcess } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

// Runs the whole test suite repeatedly beside a busy loop on every core, as on a loaded CI machine: npm run test:stress.
// Finds tests that depend on the machine's speed.
// Arguments after `--` go to vitest: npm run test:stress -- --times 3 -- --project unit.

const ROOT = new URL('../', import.meta.url).pathname
const { values, positionals } = parseArgs({
  options: {
    times: { type: 'string', default: '10' },
    loops: { type: 'string', default: String(cpus().length) },
    logs: { type: 'string', default: join(ROOT, '.vitest/stress') },
  },
  allowPositionals: true,
})
const times = Number(values.times)
const loops: ChildProcess[] = []
let running: ChildProcess | null = null
process.on('exit', () => {
  endLoops()
  running?.kill('SIGTERM')
})
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130))

mkdirSync(values.logs, { recursive: true })
console.log(`${times} runs of the whole suite beside ${values.loops} busy loops on ${cpus().length} cores`)
let passed = 0
for (let run = 1; run <= times; run++) {
  startLoops(Number(values.loops))
  const startedAt = performance.now()
  const { status, output } = await runSuite(positionals)
  endLoops()
  const seconds = Math.round((performance.now() - startedAt) / 1_000)
  const log = join(values.logs, `run-${run}.log`)
  writeFileSync(log, output)
  if (status === 0) passed++
  const tests = /^\s*Tests\s+(.*)$/m.exec(output)?.[1] ?? 'no result'
  console.log(`run ${run}: ${status === 0 ? 'green' : `red (${log})`}, ${tests}, ${seconds} s`)
  for (const line of new Set(output.match(/^\s*FAIL .*$/gm))) console.log(`  ${line.trim()}`)
}
console.log(`${passed} of ${times} green`)
process.exitCode = passed === times ? 0 : 1

/** Not `spawnSync`, which blocks signal handling. */
function runSuite(args: readonly string[]): Promise<{ status: number | null; output: string }> {
  const suite = spawn('npx', ['vitest', 'run', ...args], {
    cwd: ROOT,
    env: { ...process.env, NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [suite.stdout, suite.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  running = suite
  return new Promise((resolve, reject) => {
    suite.once('error', reject)
    suite.once('close', (status) => resolve({ status, output }))
  })
}

function startLoops(count: number): void {
  for (let n = 0; n < count; n++)
    loops.push(spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }))
}

function endLoops(): void {
  for (const loop of loops.splice(0)) loop.kill('SIGKILL')
}
