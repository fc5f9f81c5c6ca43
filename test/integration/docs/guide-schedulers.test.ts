import { execFile, spawnSync } from 'node:child_process'
import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { programPath } from '../../support/cli.ts'
import { codeBlocks } from '../../support/code-blocks.ts'
import { createCrm } from '../../support/crm.ts'
import { readGuide, writeGuideConfig } from '../../support/guide.ts'
import { openCommandLine } from '../cli/command-line.ts'

// docs/guides/schedulers.md: its function for Airflow and Dagster, with each end that a run can have.

const hasPython = spawnSync('python3', ['--version']).status === 0
const { database, cli, sandbox } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 30),
  service: { notFoundShare: 0, missingShare: 0, latencyAfterMs: [100, 200] },
})
const [config = ''] = readGuide('schedulers').configs
const python =
  codeBlocks().find(({ file, language }) => file === 'docs/guides/schedulers.md' && language === 'python')
    ?.code ?? ''
await writeGuideConfig(cli.folder, config)
const command = join(cli.folder, 'fillrate')
await writeFile(command, `#!/bin/sh\nexec "${process.execPath}" "${programPath()}" "$@"\n`)
await chmod(command, 0o755)
await writeFile(
  join(cli.folder, 'job.py'),
  `${python}
import sys
words = json.loads(sys.argv[1])
timeout = float(sys.argv[2])
try:
    print(json.dumps(fillrate(*words, cwd=".", timeout=timeout, command=("./fillrate",))))
except FillrateFailed as failed:
    print(json.dumps({"code": failed.code, "retry": failed.may_retry, "message": str(failed)}))
`,
)

async function run(
  words: readonly string[],
  timeout = 240,
  env: NodeJS.ProcessEnv = {},
): Promise<Record<string, unknown>> {
  const { stdout } = await promisify(execFile)(
    'python3',
    ['job.py', JSON.stringify(words), String(timeout)],
    {
      cwd: cli.folder,
      env: { ...cli.environment, LOG_LEVEL: 'silent', ...env },
    },
  )
  return JSON.parse(stdout) as Record<string, unknown>
}

test.skipIf(!hasPython)('done, at the budget, and with failed rows: a report, and no failure', async () => {
  expect(await run(['run', '--route', 'sync', '--budget', '5'])).toMatchObject({
    exit: 4,
    status: 'budget_reached',
    spend: { lookups: 5 },
  })
  await database.query(`update crm.contacts set email = 'no address' where id = 1`)
  expect(await run(['run', '--route', 'sync'])).toMatchObject({ status: 'completed', rows: { waiting: 0 } })
})

test.skipIf(!hasPython)(
  'a wrong configuration is not retried; a Postgres that does not answer is',
  async () => {
    expect(await run(['run', 'nothing'])).toMatchObject({ code: 2, retry: false })
    expect(await run(['run', '--budget', 'much'])).toMatchObject({ code: 2, retry: false })
    const away = { DATABASE_URL: 'postgres://postgres@127.0.0.1:1/crm' }
    expect(await run(['status'], 240, away)).toMatchObject({ code: 2, retry: true })
  },
)

test.skipIf(!hasPython)(
  'a timeout stops the run with its state saved, and the next one repeats nothing',
  async () => {
    const calls = sandbox.stats().calls.accepted
    await database.query(
      `update crm.contacts set email = 'later' || id || '@example.com', title = null, phone = null`,
    )
    await writeGuideConfig(cli.folder, config.replace("timeout: '20s'", "timeout: '20s', concurrency: 1"))
    const stopped = await run(['run', '--route', 'sync'], 3)
    expect(stopped).toMatchObject({ code: 130, retry: true })
    expect(await run(['run', '--route', 'sync'])).toMatchObject({ rows: { waiting: 0 } })
    expect(await database.count(`fillrate.rows where state = 'waiting'`)).toBe(0)
    expect(sandbox.stats().calls.accepted - calls).toBe(30)
  },
)
