import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'

// Runs the whole test suite again and again beside a busy loop on every core, which is what a loaded CI machine looks
// like: npm run test:stress. A test that depends on the machine's speed fails here and nowhere else.
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
process.on('exit', endLoops)
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(130))

mkdirSync(values.logs, { recursive: true })
console.log(`${times} runs of the whole suite beside ${values.loops} busy loops on ${cpus().length} cores`)
let passed = 0
for (let run = 1; run <= times; run++) {
  startLoops(Number(values.loops))
  const startedAt = performance.now()
  const { status, stdout, stderr } = spawnSync('npx', ['vitest', 'run', ...positionals], {
    cwd: ROOT,
    encoding: 'utf8',
    env: { ...process.env, NO_COLOR: '1' },
    maxBuffer: 256 * 1024 * 1024,
  })
  endLoops()
  const seconds = Math.round((performance.now() - startedAt) / 1_000)
  const log = join(values.logs, `run-${run}.log`)
  writeFileSync(log, `${stdout}\n${stderr}`)
  if (status === 0) passed++
  const tests = /^\s*Tests\s+(.*)$/m.exec(stdout)?.[1] ?? 'no result'
  console.log(`run ${run}: ${status === 0 ? 'green' : `red (${log})`}, ${tests}, ${seconds} s`)
  for (const line of new Set(stdout.match(/^\s*FAIL .*$/gm))) console.log(`  ${line.trim()}`)
}
console.log(`${passed} of ${times} green`)
process.exitCode = passed === times ? 0 : 1

function startLoops(count: number): void {
  for (let n = 0; n < count; n++)
    loops.push(spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }))
}

function endLoops(): void {
  for (const loop of loops.splice(0)) loop.kill('SIGKILL')
}
