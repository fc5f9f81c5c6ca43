import { connect, createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { createCrm, distinctEmails } from '../../support/crm.ts'
import { listenOnLoopback } from '../../support/loopback.ts'
import { openCommandLine } from './command-line.ts'

const { database, sandbox, cli } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 800),
  service: { limit: 150, windowMs: 1_000, latencyAfterMs: [10, 50] },
})

test('SIGTERM saves the state of a run; the next run continues where it stopped', async () => {
  const distinct = await distinctEmails(database.pool)
  const first = cli.start('run', '--route', 'sync', '--json')
  await expect.poll(() => sandbox.stats().calls.accepted).toBeGreaterThan(200)
  first.child.kill('SIGTERM')
  const interrupted = await first.ended
  expect(interrupted.code).toBe(130)
  const report = JSON.parse(interrupted.stdout) as { status: string; rows: Record<string, number> }
  expect(report.status).toBe('interrupted')
  const { picked = 0, ...states } = report.rows
  expect(Object.values(states).reduce((sum, count) => sum + count, 0)).toBe(picked)
  expect(report.rows['waiting']).toBeGreaterThan(0)
  const leased = `select count(*)::int from fillrate.lookups where state = 'leased'`
  expect(await database.scalar(leased)).toBe(0)

  const second = await cli.run('run', '--route', 'sync', '--json')
  expect(second.code).toBe(0)
  expect(JSON.parse(second.stdout)).toMatchObject({ status: 'completed', rows: { waiting: 0 } })
  const stats = sandbox.stats({ inputs: true })
  expect(stats.inputs.max_paid).toBe(1)
  expect(stats.inputs.distinct).toBe(distinct)
})

/** Postgres behind a port that loses all connections after these numbers of messages of its clients. */
async function startLossyPort(
  url: URL,
  losesAfter: readonly number[],
): Promise<{ url: string; lost: () => number }> {
  const losses = new Set(losesAfter)
  const clients = new Set<Socket>()
  let messages = 0
  let lost = 0
  const server = createServer((client) => {
    const upstream = connect(Number(url.port), url.hostname)
    clients.add(client)
    client.on('data', (data) => {
      if (losses.delete(++messages)) {
        lost++
        for (const one of clients) one.destroy()
      } else upstream.write(data)
    })
    upstream.pipe(client)
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const)
      socket.on('error', () => {}).on('close', () => other.destroy())
    client.on('close', () => clients.delete(client))
  })
  const { port, close } = await listenOnLoopback(server)
  onTestFinished(close)
  return { url: Object.assign(new URL(url), { host: `127.0.0.1:${port}` }).href, lost: () => lost }
}

test('a run that starts while Postgres crashes again and again waits for it, and loses nothing', async () => {
  await database.query(
    `insert into crm.contacts (email) select 'late' || n || '@example.com' from generate_series(1, 5) n`,
  )
  // From the first message of the first connection to the lookups: at the start of a run there are about sixty.
  const losses = [1, 12, 30, 44]
  const port = await startLossyPort(new URL(database.url), losses)
  const ended = await cli.runWith({ DATABASE_URL: port.url }, 'run', '--route', 'sync', '--json')
  expect(ended).toMatchObject({ code: 0, stderr: expect.stringContaining('"event":"postgres_waiting"') })
  expect(port.lost()).toBe(losses.length)
  expect(JSON.parse(ended.stdout)).toMatchObject({
    status: 'completed',
    rows: { picked: 5, waiting: 0, failed: 0 },
  })
  expect(ended.stderr.match(/Postgres is not available/g)).toHaveLength(1)
  const rows = await database.query(`select from fillrate.runs where state = 'running'`)
  expect(rows).toEqual([])
})

test('serve waits for a Postgres that crashes while it starts', async () => {
  const port = await startLossyPort(new URL(database.url), [1, 12])
  const { child, ended } = cli.startWith({ DATABASE_URL: port.url }, 'serve', '--port', '0', '--json')
  child.stdout?.once('data', () => child.kill('SIGTERM'))
  expect(await ended).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('"listens"'),
    stderr: expect.stringContaining('"event":"postgres_waiting"'),
  })
})
