import type { Variable } from './environment-help.ts'
import type { ExitCode } from './exit-codes.ts'
import type { Flag } from './flag.ts'

export type Flags = Readonly<Record<string, Flag<unknown>>>

/** A command: what is parsed and what help says. */
export interface Declaration<Own extends Flags = Flags> {
  readonly group: 'first' | 'work' | 'look' | 'try' | 'hidden'
  /** One line, for the list. */
  readonly summary: string
  /** What it does, in a few sentences, for its own help. */
  readonly about: string
  /** The words after it. */
  readonly words: {
    readonly placeholder: string
    readonly help: string
    readonly most: number
    /** Without so many of them there is nothing to do. Default: 0. */
    readonly least?: number
  } | null
  readonly flags: Own
  readonly examples: readonly (readonly [command: string, what: string])[]
  readonly exits: readonly ExitCode[]
  readonly environment: readonly Variable[]
  /** It leaves the terminal to a program: there is no `--json`. */
  readonly json: boolean
  /** What to say at the first signal, when it then finishes by itself. Null: it stops at once. */
  readonly onInterrupt: string | null
  /** It runs until told to stop: where there is no terminal its log is for programs. */
  readonly longLived: boolean
  /** More for its help: a list of terms. */
  readonly terms?: { readonly title: string; readonly list: Readonly<Record<string, string>> }
}

/** Fills in what most commands have in common. */
export function declare<const Own extends Flags>(
  declaration: Pick<Declaration<Own>, 'group' | 'summary' | 'about' | 'flags' | 'examples'> &
    Partial<Declaration<Own>>,
): Declaration<Own> {
  return {
    words: null,
    exits: [0, 1, 2],
    environment: [],
    json: true,
    onInterrupt: null,
    longLived: false,
    ...declaration,
  }
}

export const DATABASE = ['DATABASE_URL'] as const

/** What a command says that stops taking work and ends by itself. */
export const FINISHING = 'finishing what is under way; again to stop at once'

/** The words of a command that works on sources. */
export const sources = {
  placeholder: '[SOURCE…]',
  help: 'sources of the configuration; default: all',
  most: Number.POSITIVE_INFINITY,
}
