import { readFileSync, writeFileSync } from 'node:fs'
import { renderScreen, type Cell } from './terminal-screen.ts'

// Generates docs/run.svg from the terminal output of a real demo:
//   script -qfec 'stty cols 96 rows 60; npm start' demo.typescript
//   node scripts/terminal-picture.ts demo.typescript

const COLUMNS = 96
const [, , from = 'demo.typescript'] = process.argv
const lines = renderScreen(readFileSync(from, 'utf8'))
const text = (line: readonly Cell[]): string => line.map((cell) => cell.text).join('')
const first = lines.findIndex((line) => text(line).startsWith('── The run'))
const last = lines.findIndex((line) => text(line).startsWith('── What the services counted'))
const shown = lines.slice(first, last).map((line) => line.slice(0, COLUMNS))
while (text(shown.at(-1) ?? []).trim() === '') shown.pop()

const WIDTH = 8.43
const HEIGHT = 19
const MARGIN = 22
/** Colours on a dark background, by terminal colour number. */
const COLORS: Readonly<Record<number, string>> = {
  31: '#f08683',
  32: '#45c9a3',
  33: '#e5b454',
  34: '#8db0fa',
  35: '#c9a0f5',
  36: '#5cc8d7',
  90: '#7d8796',
}

const width = Math.ceil(COLUMNS * WIDTH + 2 * MARGIN)
const height = shown.length * HEIGHT + 2 * MARGIN
const escape = (part: string): string =>
  part.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

const body = shown.map((line, n) => {
  const y = MARGIN + n * HEIGHT + 14
  const spans = toSpans(line).map(({ at, part, style }) => {
    const look = [
      style.color === null ? '' : ` fill="${COLORS[style.color] ?? '#e6eaf0'}"`,
      style.bold ? ' font-weight="700"' : '',
      style.dim ? ' opacity="0.6"' : '',
    ].join('')
    return `<tspan x="${(MARGIN + at * WIDTH).toFixed(1)}" textLength="${(part.length * WIDTH).toFixed(1)}"${look}>${escape(part)}</tspan>`
  })
  return spans.length === 0 ? '' : `<text y="${y}" xml:space="preserve">${spans.join('')}</text>`
})

/** Sequences of cells with the same style, without blank ones. */
function toSpans(line: readonly Cell[]): { at: number; part: string; style: Cell }[] {
  const runs: { at: number; part: string; style: Cell }[] = []
  line.forEach((cell, at) => {
    const before = runs.at(-1)
    if (
      before &&
      before.at + before.part.length === at &&
      before.style.color === cell.color &&
      before.style.bold === cell.bold &&
      before.style.dim === cell.dim
    )
      before.part += cell.text
    else runs.push({ at, part: cell.text, style: cell })
  })
  return runs.filter(({ part }) => part.trim() !== '')
}

writeFileSync(
  new URL('../docs/run.svg', import.meta.url),
  `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="Report of a demo run: rows by state, lookups, calls, and what it filled">
<rect width="${width}" height="${height}" rx="10" fill="#0e1116"/>
<g font-family="ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="14" fill="#e6eaf0">
${body.filter((one) => one !== '').join('\n')}
</g>
</svg>
`,
)
