import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { drawRecording, type Chunk } from './terminal-picture.ts'

// Records a demo of the built program in an empty folder, and draws it as docs/run.svg: npm run build && npm run recording.
// It needs `script` of util-linux. The first argument names the folder of an earlier recording that is to be drawn again.

const ROOT = join(import.meta.dirname, '..')
const COLUMNS = 96
const ROWS = 34
const [, , earlier] = process.argv
const folder = earlier ?? record()

writeFileSync(
  join(ROOT, 'docs/run.svg'),
  drawRecording(readRecording(folder), {
    columns: COLUMNS,
    rows: ROWS,
    stillFrom: '── The run',
    until: '── Next steps',
    label:
      'A demo run: a Postgres with a CRM and two services start, rows are looked up and filled, and the report accounts for each',
  }),
)
if (earlier === undefined) rmSync(folder, { recursive: true, force: true })

/** @returns a folder with `out`, what was written, and `timing`, the seconds and bytes of each part */
function record(): string {
  const program = join(ROOT, 'dist/src/main.js')
  if (!existsSync(program)) throw new Error('There is no dist: npm run build.')
  const place = mkdtempSync(join(tmpdir(), 'fillrate-recording-'))
  writeFileSync(join(place, 'fillrate'), `#!/bin/sh\nexec '${process.execPath}' '${program}' "$@"\n`)
  chmodSync(join(place, 'fillrate'), 0o755)
  const command = `stty cols ${COLUMNS} rows ${ROWS}; echo '$ fillrate demo'; fillrate demo`
  const { status } = spawnSync(
    'script',
    ['-q', '-e', '-f', '--log-out', join(place, 'out'), '--log-timing', join(place, 'timing'), '-c', command],
    {
      cwd: place,
      stdio: ['ignore', 'ignore', 'inherit'],
      env: {
        ...process.env,
        PATH: `${place}${delimiter}${process.env['PATH']}`,
        TERM: 'xterm-256color',
        LANG: 'C.UTF-8',
      },
    },
  )
  if (status !== 0) throw new Error(`The demo exited with ${status}: ${join(place, 'out')}`)
  return place
}

function readRecording(place: string): Chunk[] {
  const written = readFileSync(join(place, 'out'))
  // `script` writes a first line of its own, which the timing does not count.
  let from = written.indexOf('\n') + 1
  // A part may end within a character.
  const decoder = new TextDecoder()
  return readFileSync(join(place, 'timing'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => {
      const [after = 0, bytes = 0] = line.split(' ').map(Number)
      const text = decoder.decode(written.subarray(from, from + bytes), { stream: true })
      from += bytes
      return { after, text }
    })
}
