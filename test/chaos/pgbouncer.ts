import { spawn, spawnSync } from 'node:child_process'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../support/free-port.ts'
import { onServer } from '../support/server.ts'

export interface PgBouncer {
  readonly port: number
  stop(): Promise<void>
}

/** Whether this machine has PgBouncer: on Debian `apt-get install pgbouncer`. */
export const hasPgBouncer = (): boolean => spawnSync('pgbouncer', ['--version']).status === 0

/** PgBouncer refuses to run as root. */
function unprivilegedAccount(): { readonly uid?: number; readonly gid?: number } {
  if (process.getuid?.() !== 0) return {}
  const read = (which: string): number =>
    Number(spawnSync('id', [which, 'nobody'], { encoding: 'utf8' }).stdout)
  return { uid: read('-u'), gid: read('-g') }
}

/** PgBouncer in transaction mode, with fewer server connections than clients, so that they are shared. */
export async function startPgBouncer(server: URL): Promise<PgBouncer> {
  const folder = await mkdtemp(join(tmpdir(), 'fillrate-pgbouncer-'))
  await chmod(folder, 0o755)
  const port = await freePort()
  const file = join(folder, 'pgbouncer.ini')
  await writeFile(join(folder, 'users'), `"${server.username}" "${decodeURIComponent(server.password)}"\n`)
  await writeFile(
    file,
    `[databases]
* = host=127.0.0.1 port=${server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = plain
auth_file = ${join(folder, 'users')}
pool_mode = transaction
default_pool_size = 3
max_client_conn = 100
`,
  )
  const child = spawn('pgbouncer', [file], { stdio: 'ignore', cwd: '/', ...unprivilegedAccount() })
  const url = new URL(server)
  url.port = String(port)
  for (let attempt = 0; ; attempt++) {
    const up = await onServer(url.href, (client) => client.query('select 1')).catch((error: unknown) => error)
    if (!(up instanceof Error)) break
    if (attempt === 2_400) throw up
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return {
    port,
    stop: async () => {
      const exited = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGKILL')
      await exited
      await rm(folder, { recursive: true, force: true })
    },
  }
}
