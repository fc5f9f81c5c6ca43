import { cpus, loadavg, release, totalmem, type as system } from 'node:os'
import { openArena, type Arena } from './arena.ts'
import { fight, type Bout } from './bout.ts'
import { contenderNames, type ContenderName } from './contender.ts'
import { goalsOf, type Speed } from './goals.ts'
import { USAGE, readOptions, type BenchOptions } from './options.ts'
import { startSandboxProcess, type SandboxProcess } from './sandbox.ts'
import { memoryTable, speedTable } from './table.ts'

async function bench(options: BenchOptions): Promise<void> {
  const arena = await openArena(options)
  try {
    const sandbox = await startSandboxProcess()
    try {
      await measure(arena, sandbox, options)
    } finally {
      await sandbox.stop()
    }
  } finally {
    await arena.stop()
  }
}

async function measure(arena: Arena, sandbox: SandboxProcess, options: BenchOptions): Promise<void> {
  console.log(machine(arena, options), '\n')
  // The sandbox's code is compiled by use: without this the first contender would wait for that.
  for (const contender of options.contenders)
    await fight(arena, sandbox, { ...options, contender, rows: 2_000, latencyMs: 0, profile: null })

  const speeds: Speed[] = []
  for (const latencyMs of options.latencies) {
    const bouts = await rounds(arena, sandbox, options, {
      rows: options.rows,
      latencyMs,
      times: options.rounds,
    })
    speeds.push({ latencyMs, bouts })
    console.log(
      `${number(options.rows)} rows, ${latencyMs === 0 ? 'no latency' : `${latencyMs} ms of latency`}:\n`,
    )
    console.log(speedTable(bouts, options.contenders), '\n')
  }
  const small = speeds[0]?.bouts ?? []
  let large: Bout[] | null = null
  if (options.memoryRows !== null) {
    const latencyMs = options.latencies[0] ?? 0
    large = await rounds(arena, sandbox, options, { rows: options.memoryRows, latencyMs, times: 1 })
    console.log(`Ten times the rows:\n`)
    console.log(memoryTable(small, large, options.contenders), '\n')
  }
  // A goal is held against the plain script of the same run.
  if (options.contenders.length < contenderNames.length) return
  for (const goal of goalsOf(speeds, large))
    console.log(`- ${goal.met ? 'met' : 'NOT MET'}: ${goal.text} (${goal.measured})`)
}

/** The contenders in turn: A B C A B C, so that a slow minute of the machine falls on all alike. */
async function rounds(
  arena: Arena,
  sandbox: SandboxProcess,
  options: BenchOptions,
  what: { readonly rows: number; readonly latencyMs: number; readonly times: number },
): Promise<Bout[]> {
  const bouts: Bout[] = []
  for (let round = 1; round <= what.times; round++)
    for (const contender of options.contenders) {
      const bout = await fight(arena, sandbox, { ...options, ...what, contender })
      bouts.push(bout)
      tell(bout, `${what.latencyMs} ms, round ${round} of ${what.times}`)
      if (bout.costliest) console.error(bout.costliest)
      const [first] = bouts
      if (first && bout.contents !== first.contents)
        throw new Error(
          `${contender} left another table behind than ${first.contender}: ${bout.contents}, not ${first.contents}`,
        )
    }
  return bouts
}

function tell(bout: Bout, when: string): void {
  const { contender, rowsPerSecond, peakBytes, statementsPer1000, durationMs } = bout
  console.error(
    `${when}: ${pad(contender)} ${number(rowsPerSecond)} rows/s in ${(durationMs / 1_000).toFixed(1)} s, ` +
      `${number(peakBytes / 1024 / 1024)} MiB, ${number(statementsPer1000)} statements per 1,000 rows, ` +
      `load ${loadavg()[0]?.toFixed(1)}`,
  )
}

const pad = (contender: ContenderName): string => contender.padEnd(5)
const number = (value: number): string => Math.round(value).toLocaleString('en')

function machine(arena: Arena, options: BenchOptions): string {
  const all = cpus()
  return [
    `${all.length} cores (${all[0]?.model.trim() ?? 'unknown'})`,
    `${number(totalmem() / 1024 ** 3)} GiB`,
    `${system()} ${release()}`,
    `Node ${process.version}`,
    `Postgres ${arena.version} (${options.settings.join(', ') || 'as it comes: fsync and synchronous_commit on'})`,
  ].join(', ')
}

/**
 * Fillrate's two routes beside a plain script, on the sandbox without a limit. Markdown on standard output, to be
 * pasted into docs/performance.md; what goes on meanwhile on standard error.
 */
const options = readOptions(process.argv.slice(2))
if (options === 'help') console.log(USAGE)
else await bench(options)
