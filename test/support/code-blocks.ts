import { globSync, readFileSync } from 'node:fs'
import { resolve } from 'node:path'

export interface CodeBlock {
  readonly file: string
  /** Of its first line, counted from 1. */
  readonly line: number
  readonly language: string
  readonly code: string
}

/** All fenced code blocks of the README, the documentation and the examples. */
export function codeBlocks(): CodeBlock[] {
  return [
    'README.md',
    ...globSync('docs/**/*.md').sort(),
    ...globSync('examples/*/README.md').sort(),
  ].flatMap((file) => {
    const text = readFileSync(file, 'utf8')
    return [...text.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(
      ({ 1: language = '', 2: code = '', index }) => ({
        file,
        line: text.slice(0, index).split('\n').length + 1,
        language,
        code,
      }),
    )
  })
}

/** The arguments of each `fillrate …` line of a block, without comments, `npx` and pipes. */
export function fillrateLines(code: string): string[][] {
  return code.split('\n').flatMap((line) => {
    const [command = ''] = line.replace(/\s+#.*$/, '').split(/ [|>] /)
    const args = /^(?:npx )?fillrate (.*)$/.exec(command.trim())?.[1]
    if (args === undefined) return []
    return [
      [...args.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map((match) => match[1] ?? match[2] ?? match[3] ?? ''),
    ]
  })
}

/** A snippet that imports from the sources: the package is neither built nor installed here. */
export const fromSources = (code: string): string =>
  code.replaceAll("from 'fillrate'", `from '${resolve('src/index.ts')}'`)
