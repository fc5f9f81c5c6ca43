import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { bundleProgram } from './bundle.ts'

// Builds the published program into dist: npm run build. TypeScript writes the declarations, rolldown the code.

const ROOT = join(import.meta.dirname, '..')
const DIST = join(ROOT, 'dist')

rmSync(DIST, { recursive: true, force: true })
const { status } = spawnSync(join(ROOT, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json'], {
  cwd: ROOT,
  stdio: 'inherit',
})
if (status !== 0) process.exit(1)
await bundleProgram(DIST)
