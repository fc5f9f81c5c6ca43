import { createServer } from 'node:net'
import { afterAll, describe, expect, onTestFinished, test } from 'vitest'
import { createCrm, crmConfig } from '../../support/crm.ts'
import { freePort } from '../../support/free-port.ts'
import { answerJson, listenOnLoopback, startLoopback } from '../../support/loopback.ts'
import { openCommandLine } from '../cli/command-line.ts'

// What keeps `fillrate start` and `fillrate serve` from starting ends the process with 2, so that its supervisor does not
// restart it, and nothing of it stays behind.

const { database, sandbox, cli } = await openCommandLine({ prepare: (pool) => createCrm(pool, 3) })
/** Takes connections and never answers, neither as Postgres nor as an HTTP server. */
const silent = await listenOnLoopback(createServer(() => {}))
afterAll(() => silent.close())

async function startFailing(environment: Record<string, string | undefined>, ...args: string[]) {
  const { child, ended } = cli.startWith(environment, ...args)
  onTestFinished(() => void child.kill('SIGKILL'))
  return ended
}
const portOf = (url: string): string => new URL(url).port

describe.each(['start', 'serve'])('%s', (command) => {
  test('on a port of another program', async () => {
    const { code, stderr } = await startFailing({}, command, '--port', portOf(sandbox.url))
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('FILLRATE_PORT') as string })
    expect(stderr).toContain('in use by another program')
  })

  test.each(['192.0.2.1', 'no-such-host.invalid'])('at %s, which this machine has not', async (host) => {
    const port = String(await freePort())
    const { code, stderr } = await startFailing({ FILLRATE_HOST: host, FILLRATE_PORT: port }, command)
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('FILLRATE_HOST') as string })
    expect(stderr).not.toContain('DATABASE_URL')
  })

  test('with a certificate of Postgres that is missing', async () => {
    const url = `${database.url}?sslmode=verify-full&sslrootcert=/missing/root.pem`
    const { code, stderr } = await startFailing({ DATABASE_URL: url }, command)
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('DATABASE_URL') as string })
    expect(stderr).toContain('/missing/root.pem')
  })

  test('with a password that Postgres rejects, or a database that it has not', async () => {
    const missing = Object.assign(new URL(database.url), { pathname: '/no_such_database' }).href
    const { code, stderr } = await startFailing({ DATABASE_URL: missing }, command)
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('DATABASE_URL') as string })
  })
})

test('start on a taken port ends while Postgres does not answer, too', async () => {
  const port = String(silent.port)
  const url = Object.assign(new URL(database.url), { hostname: '127.0.0.1', port }).href
  const { code, stderr } = await startFailing({ DATABASE_URL: url }, 'start', '--port', port)
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining('FILLRATE_PORT') as string })
})

test('a first configuration without a budget ends start, and no process is left in the list', async () => {
  await cli.configure({ ...crmConfig, budget: undefined, schedule: [{ cron: '0 2 * * *' }] })
  const { code, stderr } = await startFailing({}, 'start')
  expect({ code, stderr }).toEqual({
    code: 2,
    stderr: expect.stringContaining('schedule[0].budget') as string,
  })
  await cli.configure(crmConfig)
})

test('a port that another program has taken from the process before is reported once, and taken when it is free', async () => {
  let service = 'fillrate'
  const holder = await startLoopback((_, response) => answerJson(response, 200, { service, ok: true }))
  const { port } = holder
  let output = ''
  const { child, ended } = cli.start('start', '--port', String(port))
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (text: string) => (output += text))
  onTestFinished(() => void child.kill('SIGKILL'))
  await expect.poll(() => output).toContain('this one takes over when it ends')
  service = 'another'
  await expect.poll(() => output).toContain('cannot listen; trying again')
  await holder.close()
  await expect.poll(() => output).toContain(`Listening at http://127.0.0.1:${port}`)
  expect(output.match(/cannot listen/g)).toHaveLength(1)
  child.kill('SIGTERM')
  expect((await ended).code).toBe(0)
})
