/** An error that Postgres gave, in the fields that its protocol names (protocol-error-fields). */
export interface DatabaseError {
  /** SQLSTATE, five characters. */
  readonly code: string
  readonly message: string
  readonly constraint?: string | null | undefined
  readonly column?: string | null | undefined
  /** The functions that it came through. */
  readonly where?: string | null | undefined
}

/**
 * SQLSTATE classes that say nothing of a row: the connection, the transaction, privileges and syntax, resources,
 * locks, an operator, the system. Every other class may come out of a value or a trigger, which may raise any code.
 */
export const FAULTS_OF_NO_ROW = [
  '08',
  '0A',
  '25',
  '26',
  '28',
  '2D',
  '3D',
  '40',
  '42',
  '53',
  '55',
  '57',
  '58',
  'F0',
  'XX',
]

/**
 * Of the classes above, what says something of a row all the same where a function of the user's has raised it: a
 * trigger may refuse a row for lack of a privilege (42501) just as by a text of its own.
 */
export const RAISED_CLASS = '42'

/** What the context of such an error holds, for JavaScript and Postgres alike. Our own block is no function of theirs. */
export const RAISED_IN = '(?:PL/[A-Za-z0-9]+|SQL) function (?!inline_code_block)'

const isRaised = ({ code, where }: Pick<DatabaseError, 'code' | 'where'>): boolean =>
  code.startsWith(RAISED_CLASS) && new RegExp(RAISED_IN).test(where ?? '')

/** Whether the database refused what was to be written, so that other rows of the batch may still be written. */
export const isRefusal = (error: unknown): error is DatabaseError =>
  error instanceof Error &&
  'code' in error &&
  typeof error.code === 'string' &&
  /^[\dA-Z]{5}$/.test(error.code) &&
  (!FAULTS_OF_NO_ROW.includes(error.code.slice(0, 2)) || isRaised(error as unknown as DatabaseError))

/** Why the database refused a row, in words and without the row's values, which may be personal. */
export function refusalInWords({ code, message, constraint, column }: DatabaseError): string {
  const named = constraint ? ` ${constraint}` : ''
  switch (code) {
    case '23505':
      return `unique conflict on${named}: another row holds that value`
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
    case 'P0001':
      return `raised by a trigger or function: ${message}`
    default:
      return `${withoutValue(message)} (${code})`
  }
}

/** `invalid input syntax for type integer: "12a"` without what stands in quotes. */
const withoutValue = (message: string): string =>
  message.replace(/: ".*"?$/s, '').replaceAll(/"[^"]*@[^"]*"/g, '"…"')
