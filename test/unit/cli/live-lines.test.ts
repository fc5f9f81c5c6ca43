import { expect, test } from 'vitest'
import { Output } from '../../../src/cli/terminal.ts'
import { ProgressView } from '../../../src/cli/views/progress.ts'
import { intoFile, onTerminal } from './terminal.ts'

test('live lines are replaced in place without clearing a line first', () => {
  const { terminal, output } = onTerminal()
  output.line('before')
  output.live(['one', 'two'])
  expect(terminal.screen).toEqual(['before', 'one', 'two'])
  expect(terminal.cursorShown).toBe(false)
  output.live(['eins, which is longer', 'zwei'])
  output.live(['1', '2'])
  expect(terminal.screen).toEqual(['before', '1', '2'])
  expect(terminal.blanked).toBe(0)
})

test('fewer live lines leave nothing behind, and none shows the cursor again', () => {
  const { terminal, output } = onTerminal()
  output.live(['one', 'two', 'three'])
  output.live(['one'])
  expect(terminal.screen).toEqual(['one'])
  output.live([])
  expect(terminal.screen).toEqual([])
  expect(terminal.cursorShown).toBe(true)
  output.line('after')
  expect(terminal.screen).toEqual(['after'])
})

test('other output appears above the live lines', () => {
  const { terminal, output } = onTerminal()
  output.live(['one', 'two'])
  output.line('a warning')
  output.write('and\nmore\n')
  expect(terminal.screen).toEqual(['a warning', 'and', 'more', 'one', 'two'])
  output.live(['1', '2'])
  expect(terminal.screen).toEqual(['a warning', 'and', 'more', '1', '2'])
})

test('a live line is cut before the edge, so that the terminal never wraps it', () => {
  const { terminal, output } = onTerminal(20)
  output.live(['x'.repeat(50), 'short'])
  expect(terminal.screen).toEqual([`${'x'.repeat(18)}…`, 'short'])
})

test('without live lines only the text is written', () => {
  const { terminal, output } = onTerminal()
  output.live([])
  output.line('plain')
  expect(terminal.raw).toBe('plain\n')
})

test('a file gets neither live lines nor escapes', () => {
  const { text, output } = intoFile()
  output.live(['one', 'two'])
  output.line(output.paint('bad', 'error'))
  output.live([])
  expect(text()).toBe('error\n')
  expect(output.columns).toBeNull()
})

test('a terminal that reports 0 columns counts as one of 80', () => {
  expect(onTerminal(0).output.columns).toBe(80)
  expect(onTerminal(0).output.textColumns).toBe(80)
  expect(onTerminal(10).output.columns).toBe(20)
})

test('a terminal that cannot move its cursor gets plain lines (TERM=dumb)', () => {
  const { terminal } = onTerminal()
  const output = new Output(terminal, { color: false, isDumb: true })
  const view = new ProgressView(output)
  output.live(['one'])
  const times = [0, 20_000]
  view.countFrom(() => times.shift() ?? 0, 'writes')(1, 2)
  view.end()
  expect(terminal.raw).toBe('1 of 2 writes\n')
  expect(output.columns).toBe(80)
})
