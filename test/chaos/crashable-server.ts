import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findServerAccount, runProgram } from '../../src/demo/postgres/program.ts'
import { findBinaries } from '../../src/demo/postgres/binaries.ts'
import {
  CLUSTER_ROLE,
  createCluster,
  dataFolder,
  findClusterBinaries,
  readPassword,
} from '../../src/demo/postgres/cluster.ts'
import { freePort } from '../support/free-port.ts'
import { createTemplate } from '../support/server.ts'

/** A Postgres server that a test can crash. */
export interface CrashableServer {
  readonly url: string
  readonly port: number
  /** Ends it as a crash would, without notice to its clients, until it is started again. */
  halt(): Promise<void>
  start(): Promise<void>
  stop(): Promise<void>
}

/** Commits must survive a crash of the server, but not one of the machine. */
const SETTINGS = '-c fsync=off -c synchronous_commit=on -c max_connections=100'

export async function startCrashableServer(): Promise<CrashableServer> {
  const home = await mkdtemp(join(tmpdir(), 'fillrate-server-'))
  await chmod(home, 0o755)
  const { env, platform, arch } = process
  const options = { env, account: await findServerAccount(env) }
  const installed = await findBinaries({ platform, arch })
  await createCluster(home, { ...options, binaries: installed })
  const binaries = await findClusterBinaries(home, installed)
  const port = await freePort()
  const control = async (...args: string[]): Promise<void> => {
    const { code, output } = await runProgram(binaries.pgCtl, [...args, '-D', dataFolder(home), '-w', '-s'], {
      ...options,
      output: 'ignore',
    })
    if (code !== 0) throw new Error(`pg_ctl ${args.join(' ')} exited with ${code}: ${output}`)
  }
  const log = join(dataFolder(home), 'server.log')
  const start = (): Promise<void> => control('start', '-l', log, '-o', `-p ${port} ${SETTINGS}`)
  await start()
  const password = await readPassword(home, '18')
  const url = `postgres://${CLUSTER_ROLE}:${password}@127.0.0.1:${port}/postgres`
  await createTemplate(url)
  const halt = (): Promise<void> => control('stop', '-m', 'immediate')
  return {
    url,
    port,
    halt,
    start,
    stop: async () => {
      // It may have been left halted.
      await halt().catch(() => {})
      await rm(home, { recursive: true, force: true })
    },
  }
}
