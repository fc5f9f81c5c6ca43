/** An error that Postgres gave, in the fields that its protocol names (protocol-error-fields). */
export interface DatabaseError {
  /** SQLSTATE, five characters. */
  readonly code: string
  readonly message: string
  readonly constraint?: string | null | undefined
  readonly column?: string | null | undefined
}

/**
 * SQLSTATE classes that say nothing of a row whatever it holds: the connection, a conflict with another transaction,
 * resources, an object that is not as it must be, an operator.
 */
export const NON_ROW_CLASSES = ['08', '40', '53', '55', '57']

/**
 * Classes that mostly tell of the statement, its privileges or the system, and of a row all the same where its value
 * alone gives them: `ltree` reads with 42601, `regclass` with 42P01, `hstore` and PostGIS with XX000, and a trigger
 * may raise anything. The class can't tell which; a try without any row can.
 */
const AMBIGUOUS_CLASSES = new Set(['0A', '25', '26', '28', '2D', '3D', '42', '58', 'F0', 'XX'])

/** Whether the database refused what was to be written, so that other rows of the batch may still be written. */
export const isRowError = (error: unknown): error is DatabaseError =>
  error instanceof Error &&
  'code' in error &&
  typeof error.code === 'string' &&
  /^[\dA-Z]{5}$/.test(error.code) &&
  !NON_ROW_CLASSES.includes(error.code.slice(0, 2))

/** Whether only a try without any row can tell if such a refusal says something of a row. */
export const isAmbiguousError = (error: DatabaseError): boolean =>
  AMBIGUOUS_CLASSES.has(error.code.slice(0, 2))

/** Why the database refused a row, in words and without the row's values, which may be personal. */
export function describeRowError({ code, message, constraint, column }: DatabaseError): string {
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
