import { loadavg } from 'node:os'
import { startEmbeddedPostgres } from '../../test/support/embedded-postgres.ts'
import { playInProcess } from './single-process/play.ts'
import { httpCases } from './http/cases.ts'
import { playOverHttp } from './http/play.ts'
import { formatKillResult, killLeaders } from './kill/kill.ts'
import { readOptions, USAGE, type BenchOptions } from './options.ts'
import { rollingTarget } from './targets.ts'
import { rateTable, type Line } from './table.ts'
import { cases, groups } from './virtual/cases.ts'
import { playVirtually } from './virtual/play.ts'

const isWanted = ({ only }: BenchOptions, name: string): boolean =>
  only.length === 0 || only.some((text) => name.includes(text))

function benchVirtually(options: BenchOptions): void {
  for (const group of groups) {
    const wanted = cases.filter((one) => one.group === group && isWanted(options, `${group}: ${one.name}`))
    if (wanted.length === 0) continue
    const lines = wanted.map((one) => ({ ...one, measured: playVirtually(one, options.times) }))
    console.log(rateTable(group, lines), '\n')
  }
}

async function benchOverHttp(options: BenchOptions): Promise<void> {
  const postgres = await startEmbeddedPostgres(['fsync=off'])
  const lines: Line[] = []
  try {
    for (const one of httpCases.filter(({ name }) => isWanted(options, name))) {
      for (const processes of [1, 4]) {
        const measured = await playOverHttp(postgres.url, one, processes)
        lines.push({ ...one, measured, more: [String(processes)] })
        console.error(
          `${one.name}, ${processes} processes: ${(measured.whole * 100).toFixed(1)}% of the whole, load ${loadavg()[0]?.toFixed(1)}`,
        )
      }
    }
  } finally {
    await postgres.stop()
  }
  console.log(rateTable('Limiters from npm, in real time over HTTP', lines, ['processes']), '\n')
}

async function benchInProcess(): Promise<void> {
  const one = { limit: 5_000, windowMs: 1_000, concurrency: 512, durationMs: 12_000 }
  const measured = await playInProcess(one)
  const name = `5,000 in 1 s, ${(measured.cpuMs / 1_000).toFixed(1)} s of processor time in 12 s`
  console.log(
    rateTable('The limiter in real time, without HTTP', [{ name, target: rollingTarget, measured }]),
    '\n',
  )
}

async function benchKilling(): Promise<void> {
  const postgres = await startEmbeddedPostgres(['fsync=off'])
  try {
    console.log(formatKillResult(await killLeaders(postgres.url)), '\n')
  } finally {
    await postgres.stop()
  }
}

/**
 * How much of the limit is used, and whether a call is refused. Markdown on standard output, for docs/internals/rate.md; progress on
 * standard error.
 */
const options = readOptions(process.argv.slice(2))
if (options === 'help') console.log(USAGE)
else {
  if (options.virtual) benchVirtually(options)
  if (options.inProcess) await benchInProcess()
  if (options.http) await benchOverHttp(options)
  if (options.kill) await benchKilling()
}
