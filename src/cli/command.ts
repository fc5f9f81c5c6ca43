import { declarations, type GLOBAL_FLAGS, type Verb } from './declarations.ts'
import type { Flag } from './flag.ts'

/** The values of flags, by name, with their types. */
export type Values<Flags> = {
  readonly [Name in keyof Flags]: Flags[Name] extends Flag<infer Value> ? Value : never
}

/** What was typed: a verb, its words and its flags. A union over all verbs, told apart by `verb`. */
export type Command<Of extends Verb = Verb> = {
  [One in Of]: {
    readonly verb: One
    readonly words: readonly string[]
    readonly flags: Values<typeof GLOBAL_FLAGS> & Values<(typeof declarations)[One]['flags']>
  }
}[Of]

/** `jobDelay` is typed as `--job-delay`. */
export const typed = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

/** `fillrate run [SOURCE…] [options]`. */
export function usageOf(verb: Verb): string {
  const { words } = declarations[verb]
  return ['fillrate', verb, ...(words === null ? [] : [words.placeholder]), '[options]'].join(' ')
}

export const USAGE = 'fillrate COMMAND [options]'
