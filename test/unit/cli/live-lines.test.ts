import { expect, test } from 'vitest'
import { Output } from '../../../src/cli/terminal.ts'
import { ProgressView } from '../../../src/cli/views/progress.ts'
import { intoFile, onTerminal } from './terminal.ts'

test('a live line is replaced in place without clearing it first, and leaves nothing behind', () => {
  const { terminal, output } = onTerminal()
  output.line('before')
  output.live('eins, which is longer')
  output.live('one')
  expect(terminal.screen).toEqual(['before', 'one'])
  expect(terminal.blanked).toBe(0)
  output.live('')
  expect(terminal.screen).toEqual(['before'])
  output.line('after')
  expect(terminal.screen).toEqual(['before', 'after'])
})

test('other output appears above the live line', () => {
  const { terminal, output } = onTerminal()
  output.live('one')
  output.line('a warning')
  output.write('and\nmore\n')
  expect(terminal.screen).toEqual(['a warning', 'and', 'more', 'one'])
  output.live('1')
  expect(terminal.screen).toEqual(['a warning', 'and', 'more', '1'])
})

test('a file gets neither a live line nor escapes', () => {
  const { text, output } = intoFile()
  output.live('one')
  output.line(output.paint('bad', 'error'))
  output.live('')
  expect(text()).toBe('error\n')
  expect(output.columns).toBeNull()
})

test('a terminal that cannot move its cursor gets plain lines (TERM=dumb)', () => {
  const { terminal } = onTerminal()
  const output = new Output(terminal, { color: false, isDumb: true })
  const view = new ProgressView(output)
  output.live('one')
  const times = [0, 20_000]
  view.countFrom(() => times.shift() ?? 0, 'writes')(1, 2)
  view.end()
  expect(terminal.raw).toBe('1 of 2 writes\n')
  expect(output.columns).toBe(80)
})
