import pino from 'pino'
import { expect, test } from 'vitest'
import { ConfigProblems } from '../../../src/config/problems.ts'
import { runWithReload, toOneLine } from '../../../src/daemon/reload.ts'
import { ProcessState } from '../../../src/daemon/condition-watch.ts'

const log = pino({ level: 'silent' })

/** Fake instances that record what happens to them. */
function play(opens: readonly (string | Error)[]) {
  const events: string[] = []
  const stop = new AbortController()
  const own = new ProcessState()
  let reload = (): void => {}
  let left = [...opens]
  const ended = runWithReload({
    open: async () => {
      const [next = new Error('nothing more')] = left
      left = left.slice(1)
      if (typeof next !== 'string') throw next
      return {
        run: (signal) =>
          new Promise((resolve) => {
            events.push(`${next} works`)
            signal.addEventListener('abort', () => {
              events.push(`${next} ends`)
              resolve()
            })
          }),
        close: async () => void events.push(`${next} closed`),
      }
    },
    signal: stop.signal,
    onReload: (listener) => {
      reload = listener
    },
    waitFor: (error) => ((error as Error).message === 'away' ? 'Postgres' : null),
    state: own,
    log,
  })
  return { own, events, stop: () => stop.abort(), reload: () => reload(), ended }
}

test('a new configuration replaces the old one as a whole', async () => {
  const { events, stop, reload, ended } = play(['old', 'new'])
  await expect.poll(() => events).toEqual(['old works'])
  reload()
  await expect.poll(() => events).toEqual(['old works', 'old ends', 'old closed', 'new works'])
  stop()
  await ended
  expect(events.slice(-2)).toEqual(['new ends', 'new closed'])
})

test('an invalid configuration is rejected, and the old one continues', async () => {
  const { own, events, stop, reload, ended } = play(['old', new Error('wrong\nhere'), 'right'])
  await expect.poll(() => events).toEqual(['old works'])
  reload()
  await new Promise((resolve) => setImmediate(resolve))
  expect(events).toEqual(['old works'])
  expect(own.reloadProblem).toBe('wrong here')
  reload()
  await expect.poll(() => events).toEqual(['old works', 'old ends', 'old closed', 'right works'])
  expect(own.reloadProblem).toBe(null)
  stop()
  await ended
})

test('a new configuration waits for Postgres, and the old one continues, unless it is stopped', async () => {
  const { own, events, stop, reload, ended } = play(['old', new Error('away'), new Error('away'), 'new'])
  await expect.poll(() => events).toEqual(['old works'])
  reload()
  await expect.poll(() => events).toEqual(['old works', 'old ends', 'old closed', 'new works'])
  expect(own.reloadProblem).toBe(null)
  stop()
  await ended

  const waiting = play(['old', ...Array.from({ length: 100 }, () => new Error('away'))])
  waiting.reload()
  await expect.poll(() => waiting.events).toEqual(['old works'])
  waiting.stop()
  await waiting.ended
  expect(waiting.events).toEqual(['old works', 'old ends', 'old closed'])
})

test('missing parts are waited for; an invalid first configuration throws', async () => {
  const waited = play([new Error('away'), new Error('away'), 'there'])
  await expect.poll(() => waited.events).toEqual(['there works'])
  waited.stop()
  await waited.ended
  await expect(play([new Error('wrong')]).ended).rejects.toThrow('wrong')
})

test('the reason of a rejected configuration is one line, with the place', () => {
  const problem = {
    place: 'sources.people.outputs.titel',
    found: "'titel'\n  titel: 'title',\n  ^",
    expected:
      'a column of crm.people, and a text that is long enough to be wrapped on a terminal of a hundred columns',
    todo: null,
  }
  const text = toOneLine(new ConfigProblems('fillrate.config.ts', [problem, { ...problem, place: 'budget' }]))
  expect(text).not.toMatch(/\n| {2}|\^/)
  expect(text).toMatch(
    /^sources\.people\.outputs\.titel: found 'titel' .*; expected a column.* \| budget: found/,
  )
})
