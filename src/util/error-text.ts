import { escapeRegExp } from './text.ts'

/** Of an error from Postgres; empty for any other. */
export const sqlStateOf = (error: unknown): string => (error as { code?: string } | null)?.code ?? ''

/** A wait for another transaction was too long. */
export const LOCK_NOT_AVAILABLE = '55P03'

/** A statement that was cancelled, at its timeout or by an administrator. */
export const QUERY_CANCELED = '57014'

/** A write in a transaction that may not: by a setting, or on a standby. */
export const READ_ONLY = '25006'

/** Resources that the server lacks for now. 53400 is a limit that is configured. */
const EXHAUSTED = '53[0-3]'

/**
 * SQLSTATEs that concern no row, as a regular expression of JavaScript and of Postgres: a conflict with another transaction,
 * resources that the server lacks for now, a cancelled statement. SQLSTATEs of a lost connection (08, 57P) are not among them:
 * on a connection that still answers, a row (its trigger) has raised them; a lost connection fails again.
 */
export const NON_ROW_STATES = `^(40|${EXHAUSTED}|${LOCK_NOT_AVAILABLE}|${QUERY_CANCELED})`

export const isExhausted = (error: unknown): boolean => new RegExp(`^${EXHAUSTED}`).test(sqlStateOf(error))

/**
 * First line of an error's context if RAISE made the error, as a regular expression of JavaScript and of Postgres. Its words
 * are translated and their order differs (`在RAISE的第3行的PL/pgSQL函数f()`); `PL/pgSQL` and `RAISE` stay.
 */
export const RAISED_LINE = String.raw`^[^"]*PL/pgSQL.* RAISE\S*$|^\S*RAISE\S*PL/pgSQL`
const RAISED = new RegExp(RAISED_LINE)

/** Whether a function of the user's has raised the error: a real conflict comes from a statement. */
export function isRaised(error: unknown): boolean {
  const [line = ''] = contextOf(error).split('\n', 1)
  return RAISED.test(line)
}

/** Whether a trigger or a constraint of a row has waited too long for another transaction, and not the statement for its table. */
export const isRowWait = (error: unknown): boolean =>
  sqlStateOf(error) === LOCK_NOT_AVAILABLE && contextOf(error) !== '' && !isRaised(error)

const contextOf = (error: unknown): string => (error as { where?: string } | null)?.where ?? ''

/** Whether Postgres ended a transaction because it took longer than `transaction_timeout` (from 17 on) allows. */
export const isTransactionTimeout = (error: unknown): boolean =>
  error instanceof Error && sqlStateOf(error) === '25P04'

/**
 * An error whose message is Fillrate's own words, without a value, a key or an address of a row: it may be stored and
 * logged as it is. Whatever it quotes of another error went through `describeError`.
 */
export class FillrateError extends Error {}

/** An error from Postgres, in the fields of its protocol (protocol-error-fields). */
export interface DatabaseError {
  /** SQLSTATE, five characters. */
  readonly code: string
  readonly message: string
  readonly constraint?: string | null | undefined
  readonly column?: string | null | undefined
  /** Of a domain's constraint: the domain. */
  readonly type?: string | null | undefined
  /** The context: the functions in which it happened, innermost first. */
  readonly where?: string | null | undefined
  /** Where in the statement. The parser sets it, which sees names and no values of rows. */
  readonly position?: string | undefined
  /** The source of the innermost function: an error that quotes it quotes no value. */
  readonly source?: string | null | undefined
}

/**
 * What is stored or logged of an error above debug: no value, no key, no address, whatever raised it. The text of one cause is
 * the same for all rows, so that they can be counted and retried together.
 */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown error'
  if (error instanceof AggregateError && error.message === '') return describeError(error.errors[0])
  if (error instanceof FillrateError) return error.message
  const { code } = error as { code?: unknown }
  if (typeof code === 'string' && SQLSTATE.test(code))
    return describeServerError(error as Error & DatabaseError)
  // Of the operating system: it names an address and no more.
  if ('syscall' in error) return error.message
  // Its message quotes the text that could not be parsed, also without quotes.
  if (error instanceof SyntaxError) return 'a text that cannot be parsed'
  return maskValues(error.message)
}

const SQLSTATE = /^[\dA-Z]{5}$/

/** The same of an error that the server has reported, or a block in it. */
export function describeServerError(error: DatabaseError): string {
  const { code, constraint, column } = error
  const named = constraint ? ` ${constraint}` : ''
  const on = constraint ? ` on ${constraint}` : ''
  if (isRaisedText(error))
    return code === 'P0001'
      ? describeRaised(error)
      : `${findRaisedText(error) ?? describeRaised(error)} (${code})`
  switch (code) {
    case '23505':
      return `unique conflict${on}: another row holds that value`
    case '23P01':
      return `exclusion constraint${named}: it conflicts with another row`
    case '23514':
      return `check constraint${named} does not allow the value`
    case '23503':
      return `foreign key${named}: there is no such row`
    case '23502':
      return `not null: ${column ?? 'a column'} may not be empty`
    case '44000':
      return 'the check option of a view does not allow the row'
    case '22001':
      return 'a value is too long for its column'
    case '22003':
      return 'a number is out of range for its column'
    case '21000':
      return 'a sub-select gives more than one row'
    default:
      return `${maskServerText(error)} (${code})`
  }
}

const RAISED_BY = 'raised by a trigger or function'

/** What a function raised; where it puts its text together, which function and at which line. */
export function describeRaised(error: DatabaseError): string {
  const place = findFunction(error.where)
  const text = findRaisedText(error) ?? (place === null ? null : `${place.signature}, line ${place.line}`)
  return text === null ? RAISED_BY : `${RAISED_BY}: ${text}`
}

/**
 * What a function raised, as its source has it: `contact % is locked` is `contact … is locked`, whatever the row holds.
 * Null without its source, or where no text in it has made the message.
 */
function findRaisedText({ message, where, source }: DatabaseError): string | null {
  const place = findFunction(where)
  if (place === null) return null
  const lines = (source ?? '').split('\n').slice(place.line - 1)
  for (const [, literal = ''] of lines.join('\n').matchAll(/'((?:[^']|'')*)'/g)) {
    const text = literal.replaceAll("''", "'")
    if (toTemplate(text).test(message))
      return text
        .replaceAll(/%(%?)/g, (_, percent: string) => percent || '…')
        .replaceAll(/(["'])…\1/g, '…')
        .replaceAll(/…(?:[\s.,:–-]*…)+/g, '…')
  }
  return null
}

/** The texts that RAISE makes of a format: `%` is a value, `%%` a percent sign. */
const toTemplate = (format: string): RegExp =>
  new RegExp(
    `^${format
      .split(/(%%|%)/)
      .map((part) => (part === '%' ? '.*' : escapeRegExp(part === '%%' ? '%' : part)))
      .join('')}$`,
    's',
  )

/** The innermost function of an error's context. Its words and their order are translated; the only number beside a signature is the line. */
export function findFunction(
  where: string | null | undefined,
): { readonly signature: string; readonly line: number } | null {
  for (const context of (where ?? '').split('\n')) {
    const [, signature = ''] =
      /^[^"']*PL\/pgSQL[^"']*?"?((?:[\w$]+|"[^"]+")(?:\.(?:[\w$]+|"[^"]+"))*\([^)]*\))/.exec(context) ?? []
    const [line] = /\d+/.exec(context.replace(signature, '')) ?? []
    if (signature !== '' && line !== undefined) return { signature, line: Number(line) }
  }
  return null
}

/** Raised by RAISE, by ASSERT, with a code that Postgres does not assign, or in another language: the text is the user's own. */
function isRaisedText({ code, where }: DatabaseError): boolean {
  const [first = ''] = (where ?? '').split('\n', 1)
  return (
    code === 'P0001' ||
    code === 'P0004' ||
    !CODES_OF_POSTGRES.test(code) ||
    RAISED.test(first) ||
    OTHER_LANGUAGE.test(first)
  )
}

const OTHER_LANGUAGE = /^[^"']*PL\/(?!pgSQL)/

/** Classes that Postgres assigns; a trigger may raise others, with a text of its own. */
const CODES_OF_POSTGRES = /^(?:[0-3]|4[0-4]|5[3-8]|[FHPX])/

/** Classes whose messages name settings, roles, tables, functions and columns, and no value of a row. */
const NAMES_ONLY = /^(?:08|25|28|40|53|55|57|58)|^42501$/

/** `invalid input syntax for type integer: "12a"` without what is quoted, except names that the source of a function has. */
export function maskServerText({ code, message, position, source }: DatabaseError): string {
  const hasNames = NAMES_ONLY.test(code) || (position !== undefined && code.startsWith('42'))
  const masked = hasNames ? message : maskQuoted(message, source ?? '')
  const cut = masked.replace(/\s*: …$/, '').replaceAll(/[^\s"(),;:=]*@[^\s"(),;:=]*/g, '…')
  return hasNames ? cut : cut.replaceAll(/[^\s"(),;:=]*\d{4}[^\s"(),;:=]*/g, '…')
}

/** A quotation mark of any language in which Postgres or a library speaks; between letters, `'` is an apostrophe. */
const MARK = String.raw`["“”„«»「」]|(?<![\p{L}\d])'|'(?![\p{L}\d])`

/** From the first quotation mark to the last: what is quoted may have quotation marks too. */
const QUOTED = new RegExp(`(?:${MARK}).*(?:${MARK})`, 'su')

const maskQuoted = (text: string, source: string): string =>
  text.replace(QUOTED, (span) => {
    const quoted = span.split(new RegExp(MARK, 'u')).filter((_, index) => index % 2 === 1)
    return source !== '' && quoted.every((name) => source.includes(name.trim())) ? span : '…'
  })

/** An error text of others without what may be personal: quoted texts, addresses, and words with digits become `…`. */
const maskValues = (text: string): string =>
  maskQuoted(text, '')
    .replaceAll(/<NULL>|[^\s(),;:=<>[\]]*[@\d][^\s(),;:=<>[\]]*/g, '…')
    .replaceAll(/…(?:[\s:.,–-]*…)+/g, '…')
