import { NON_ROW_STATES } from '../util/sqlstates.ts'
import { maskValues } from '../util/text.ts'

/** An error from Postgres, in the fields of its protocol (protocol-error-fields). */
export interface DatabaseError {
  /** SQLSTATE, five characters. */
  readonly code: string
  readonly message: string
  readonly constraint?: string | null | undefined
  readonly column?: string | null | undefined
  /** Of a domain's constraint: the domain. */
  readonly type?: string | null | undefined
}

const NON_ROW = new RegExp(NON_ROW_STATES)

/**
 * Classes that mostly concern the statement, its privileges or the system, but a row if its value alone raises them:
 * `ltree` input fails with 42601, `regclass` with 42P01, `hstore` and PostGIS with XX000, and a trigger may raise
 * anything. The class does not tell them apart; running the statement without any row does.
 */
const AMBIGUOUS_CLASSES = new Set(['0A', '25', '26', '28', '2D', '3D', '42', '58', 'F0', 'XX'])

/** Whether the database rejected values, so that other rows of the batch may still be written. */
export const isRowError = (error: unknown): error is DatabaseError =>
  error instanceof Error &&
  'code' in error &&
  typeof error.code === 'string' &&
  /^[\dA-Z]{5}$/.test(error.code) &&
  !NON_ROW.test(error.code)

/** Whether such an error must be checked without any row before a row is blamed. */
export const isAmbiguousError = (error: DatabaseError): boolean =>
  AMBIGUOUS_CLASSES.has(error.code.slice(0, 2))

/** Why the database rejected a row, without the row's values, which may be personal. */
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
      return `raised by a trigger or function: ${maskValues(message)}`
    default:
      return `${CODES_OF_POSTGRES.test(code) ? withoutValue(message) : maskValues(message)} (${code})`
  }
}

/** Classes that Postgres assigns; a trigger may raise others, with a text of its own. */
const CODES_OF_POSTGRES = /^(?:[0-3]|4[0-4]|5[3-8]|[FHX])/

/** `invalid input syntax for type integer: "12a"` without the quoted value. */
const withoutValue = (message: string): string =>
  message
    .replace(/: ".*"?$/s, '')
    .replaceAll(/[^\s"(),;:=]*@[^\s"(),;:=]*/g, '…')
    .replaceAll(/[^\s"(),;:=]*\d{4}[^\s"(),;:=]*/g, '…')
