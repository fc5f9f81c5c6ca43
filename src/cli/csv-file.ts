import { open } from 'node:fs/promises'
import { resolve } from 'node:path'
import { ConfigProblems } from '../config/problems.ts'
import { Option } from '@commander-js/extra-typings'
import type { Context } from './command.ts'
import { parseText } from './options.ts'

/** The file that a command writes as CSV; `-` is standard output. */
export const csvOption = (what: string) =>
  new Option('--csv <FILE>', `${what}; - for standard output`).argParser(parseText).default(null)

/** A CSV file of a command. */
interface CsvTarget {
  /** Whether it is standard output, which then is for nothing else. */
  readonly isStdout: boolean
  write(lines: readonly (readonly (string | null)[])[]): Promise<void>
  close(): Promise<void>
}

/**
 * Opens a CSV file, and writes its first line.
 * @throws ConfigProblems if it cannot be written
 */
export async function openCsvFile(
  target: string,
  columns: readonly string[],
  { stdout, cwd }: Pick<Context, 'stdout' | 'cwd'>,
): Promise<CsvTarget> {
  const file = target === '-' ? null : await openFile(resolve(cwd, target), target)
  const csv: CsvTarget = {
    isStdout: file === null,
    async write(lines) {
      const text = lines.map(formatCsvLine).join('')
      if (file === null) stdout.write(text)
      else await file.write(text)
    },
    close: async () => file?.close(),
  }
  await csv.write([columns])
  return csv
}

async function openFile(path: string, target: string): Promise<Awaited<ReturnType<typeof open>>> {
  try {
    // Personal data: for the user alone.
    return await open(path, 'w', 0o600)
  } catch (cause) {
    const found = `${target}: ${(cause as Error).message}`
    const problem = { place: '--csv', found, expected: 'a writable file', todo: null }
    throw new ConfigProblems('the command', [problem], { cause })
  }
}

/** One record of a CSV file (RFC 4180). A text that a spreadsheet would evaluate as a formula gets a leading quote. */
export function formatCsvLine(fields: readonly (string | null)[]): string {
  return `${fields.map((field) => quoteField(field ?? '')).join(',')}\r\n`
}

function quoteField(field: string): string {
  const plain = /^[=+\-@\t\r]/.test(field) && !/^[+-]?[\d.]+$/.test(field) ? `'${field}` : field
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain
}
