import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { codeBlocks } from '../test/support/code-blocks.ts'

/*
 * Type-checks every TypeScript block of the README, the documentation and the examples. A part of `npm run typecheck`: as a
 * test it would load all sources once more, for a tenth of the time of all unit tests.
 */

// In the checkout, where the packages and their types are found.
const folder = resolve('node_modules/.fillrate-blocks')
const config = {
  extends: resolve('tsconfig.json'),
  compilerOptions: {
    paths: { fillrate: [resolve('src/index.ts')] },
    noUnusedLocals: false,
    tsBuildInfoFile: resolve('node_modules/.cache/typecheck-docs.tsbuildinfo'),
    typeRoots: [resolve('node_modules/@types')],
  },
  include: ['*.ts'],
  exclude: [],
}
rmSync(folder, { recursive: true, force: true })
mkdirSync(folder, { recursive: true })
writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
for (const { file, line, language, code } of codeBlocks())
  // The name of the file tells where the block is.
  if (language === 'ts') writeFileSync(join(folder, `${file.replaceAll(/[/.]/g, '-')}-${line}.ts`), code)
try {
  execFileSync(resolve('node_modules/.bin/tsc'), ['-p', folder], { stdio: 'inherit' })
} catch {
  process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}
