/** The command line can't be understood. Nothing has been done. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  /** How it is written: `fillrate run [SOURCE…] [options]`. */
  readonly usage: string
  /** Where to read on: `fillrate run --help`. */
  readonly help: string
  readonly suggestion: string | null

  constructor(message: string, more: { usage: string; help: string; suggestion?: string | null }) {
    super(message)
    this.usage = more.usage
    this.help = more.help
    this.suggestion = more.suggestion ?? null
  }
}
