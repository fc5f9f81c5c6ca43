import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { runCli } from '../../../src/cli/cli.ts'
import { Output } from '../../../src/cli/terminal.ts'
import { createCrm } from '../../support/crm.ts'
import { openCommandLine } from './command-line.ts'

// `undo` and `forget` on a terminal, and off one.

const { database, cli, here } = await openCommandLine({
  prepare: (pool) => createCrm(pool, 30),
  service: { missingShare: 0, notFoundShare: 0 },
})
await here(['run', '--route', 'sync'])

const filled = () => database.count('crm.contacts where phone is not null')
const runs = () => database.count('fillrate.runs')

/** Runs a command on a terminal, where `typed` is typed; null: the input ends. */
async function onTerminal(typed: string | null, ...words: string[]) {
  const stdin = Object.assign(new PassThrough(), { isTTY: true })
  let text = ''
  const sink = { isTTY: true, columns: 80, write: (part: string) => void (text += part) }
  const output = new Output(sink, { color: false })
  if (typed === null) stdin.end()
  else stdin.write(`${typed}\n`)
  const code = await runCli({
    words,
    contextFor: () => ({
      stdin,
      stdout: output,
      stderr: new Output({ write: () => {} }, { color: false }),
      env: cli.environment,
      cwd: cli.folder,
      signal: new AbortController().signal,
      now: Date.now,
    }),
  })
  return { code, text }
}

test.each([['n'], [''], [null]])(
  'undo shows the numbers, and changes nothing if answered %j',
  async (answer) => {
    const [before, count] = [await filled(), await runs()]
    expect(before).toBeGreaterThan(20)
    const { code, text } = await onTerminal(answer, 'undo', '1')
    expect(text).toMatch(
      /undoing run 1 would have this result\. Nothing was written\.\n\n +\d+ +would be restored/,
    )
    expect(text).toMatch(/\nRestore \d+ rows\? \[y\/N\] \n?Nothing was changed\.\n$/)
    expect(code).toBe(1)
    expect([await filled(), await runs()]).toEqual([before, count])
  },
)

test('undo writes after y, and with nothing left to undo there is no question', async () => {
  const { code, text } = await onTerminal('y', 'undo', '1')
  expect(text).toMatch(/\[y\/N\] Run 2 undid run 1/)
  expect(code).toBe(0)
  expect(await filled()).toBe(0)
  expect((await here(['runs'])).stdout).toMatch(/^ +1 +completed, undone /m)
  const again = await onTerminal('y', 'undo', '1')
  expect(again.text).not.toContain('[y/N]')
  expect(again.text).toContain('Nothing left to undo of run 1.')
})

test('--yes acts without a question; without it, a pipe and --json change nothing', async () => {
  expect(await onTerminal(null, 'undo', '2', '--yes')).toMatchObject({ code: 0 })
  expect(await filled()).toBeGreaterThan(20)
  expect((await here(['runs'])).stdout).toMatch(/^ +1 +completed +[^,]*$/m)
  const before = [await filled(), await runs()]
  for (const words of [
    ['undo', '3'],
    ['forget', '--email', 'a@b.example'],
    ['forget', '--deleted', 'contacts'],
  ]) {
    const piped = await cli.run(...words)
    expect(piped.code).toBe(2)
    expect(piped.stderr).toContain('expected --yes, because there is no terminal')
    const json = await onTerminal(null, ...words, '--json')
    expect(json.code).toBe(2)
    expect(JSON.parse(json.text)).toMatchObject({
      error: { kind: 'usage' },
    })
  }
  expect([await filled(), await runs()]).toEqual(before)
  expect((await here(['undo', '3', '--dry-run'])).code).toBe(0)
  expect((await here(['undo', '3', '--yes', '--json'])).code).toBe(0)
  expect((await here(['runs'])).stdout).toMatch(/^ +1 +completed, undone /m)
  expect((await here(['undo', '4', '--yes'])).code).toBe(0)
  expect(await filled()).toBeGreaterThan(20)
})

test('forget shows what it would erase, and erases after y', async () => {
  const email = await database.scalar<string>(
    `select key from fillrate.lookups where kind = 'email' order by id limit 1`,
  )
  const stored = () => database.count(`fillrate.lookups where key = '${email}'`)
  const refused = await onTerminal('n', 'forget', '--email', email)
  expect(refused.text).toMatch(/Would be erased[\s\S]*Lookups +1[\s\S]*It cannot be undone\. \[y\/N\]/)
  expect(refused.text).toContain('Nothing was changed.')
  expect(refused.code).toBe(1)
  expect(await stored()).toBe(1)
  const erased = await onTerminal('y', 'forget', '--email', email)
  expect(erased.text).toContain('Erased; further lookups are suppressed')
  expect(await stored()).toBe(0)
})
