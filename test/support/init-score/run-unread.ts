import { readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pino from 'pino'
import { openApp, type App } from '../../../src/app.ts'
import type { Config } from '../../../src/config/config.ts'
import { CONFIG_FILES, loadConfig } from '../../../src/config/load.ts'
import { startSandbox } from '../../../src/sandbox/server.ts'
import { createCommandLine } from '../cli.ts'
import type { TestDatabase } from '../database.ts'
import { environmentFor, runRequest } from '../environment.ts'
import { compareSnapshots, takeSnapshot } from './cells.ts'
import type { RunReport } from '../../../src/runs/report.ts'
import type { SchemaExpectation } from './expectation.ts'
import { judgeCells, prepareJudgement } from './judge-cells.ts'

const RECORDS = { seed: 12, missingShare: 0.15, notFoundShare: 0.1 }

/** What a user sees who runs the file of `init` as it is, and who then confirms it without having read it. */
export interface UnreadRun {
  /** The run of the file as it is: its exit code, and the calls to the service. */
  readonly unread: { readonly code: number | null; readonly calls: number } | null
  /** Null: `init` proposes nothing for this database. */
  readonly check: { readonly code: number | null; readonly output: string } | null
  readonly status: string | null
  readonly written: number
  readonly wrong: readonly string[]
  /** Tables that the dry run has changed. */
  readonly changedByDryRun: readonly string[]
  /** Lookups requested and cells written by a second run, and by a run after the undo. */
  readonly again: readonly WorkDone[]
  /** Tables that are not as before, to the byte, after the run was undone. */
  readonly changedAfterUndo: readonly string[]
}

interface WorkDone {
  readonly requested: number
  readonly written: number
}

const NOTHING: UnreadRun = {
  unread: null,
  check: null,
  status: null,
  written: 0,
  wrong: [],
  changedByDryRun: [],
  again: [],
  changedAfterUndo: [],
}

/** `init --yes`, `check`, a run; and once each `reviewed: false` is out, a dry run, a run and its undo. Every written cell is judged. */
export async function runUnread(database: TestDatabase, expectation: SchemaExpectation): Promise<UnreadRun> {
  const sandbox = await startSandbox(RECORDS)
  const commandLine = await createCommandLine(database.url, sandbox, {})
  try {
    await rm(join(commandLine.folder, CONFIG_FILES.at(-1) ?? ''))
    const init = await commandLine.run('init', '--yes')
    if (init.code === 1) return NOTHING
    const check = await commandLine.run('check')
    const { code } = await commandLine.run('run', '--route', 'sync')
    const unread = { code, calls: sandbox.stats().calls.accepted }
    const config = await loadWritten(commandLine.folder)
    const app = await openApp({
      config,
      environment: environmentFor(database.url, sandbox),
      log: pino({ level: 'silent' }),
    })
    try {
      const run = await runAndUndo(database, expectation, app)
      return { unread, check: { code: check.code, output: check.stdout + check.stderr }, ...run }
    } finally {
      await app.close()
    }
  } finally {
    await commandLine.remove()
    await sandbox.close()
  }
}

/** The configuration in the file, confirmed. Only the command line resolves its import of `fillrate`. */
async function loadWritten(folder: string): Promise<Config> {
  const text = await readFile(join(folder, CONFIG_FILES[0]), 'utf8')
  const [line = ''] = text.split('\n')
  await writeFile(
    join(folder, 'loaded.ts'),
    text.replace(line, 'const defineConfig = (config) => config').replaceAll('reviewed: false,', ''),
  )
  return loadConfig({ cwd: folder, path: 'loaded.ts' })
}

async function runAndUndo(
  { pool }: TestDatabase,
  expectation: SchemaExpectation,
  app: App,
): Promise<Omit<UnreadRun, 'check' | 'unread'>> {
  const judged = await prepareJudgement(pool, expectation)
  const before = await takeSnapshot(pool)
  const changedTables = (checksums: typeof before.checksums): string[] =>
    Object.keys(before.checksums).filter((name) => checksums[name] !== before.checksums[name])

  const run = (): Promise<RunReport> => app.run(runRequest({ budget: 'unlimited' }))
  const runAgain = async (): Promise<WorkDone> => {
    const { lookups, cells } = await run()
    return { requested: lookups.requested, written: cells.written }
  }

  await app.run(runRequest({ dryRun: { sample: 5 }, budget: 'unlimited' }))
  const changedByDryRun = changedTables((await takeSnapshot(pool)).checksums)
  const report = await run()
  const cells = compareSnapshots(before, await takeSnapshot(pool))
  const wrong = await judgeCells(pool, judged, cells, RECORDS)
  const second = await runAgain()
  await app.undo({ run: report.run, dryRun: false, signal: new AbortController().signal })
  const third = await runAgain()
  return {
    status: report.status,
    written: cells.length,
    wrong,
    changedByDryRun,
    again: [second, third],
    changedAfterUndo: changedTables((await takeSnapshot(pool)).checksums),
  }
}
