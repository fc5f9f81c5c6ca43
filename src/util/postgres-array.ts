/** A type whose arrays can be sent, by its name in SQL. */
export type ArrayType = keyof typeof TYPES

type ElementType = FixedType | TextType

interface FixedType {
  readonly oid: number
  /** Bytes of a value. */
  readonly size: number
  readonly write: (into: Buffer, value: never, at: number) => void
}

interface TextType {
  readonly oid: number
  readonly text: (value: never) => string
}

/** Identifiers of types and formats of values: src/include/catalog/pg_type.dat and the `*_recv` functions of Postgres. */
const TYPES = {
  boolean: { oid: 16, size: 1, write: (into, value: boolean, at) => void into.writeUInt8(value ? 1 : 0, at) },
  smallint: {
    oid: 21,
    size: 2,
    write: (into, value: number, at) => void into.writeInt16BE(whole(value), at),
  },
  integer: { oid: 23, size: 4, write: (into, value: number, at) => void into.writeInt32BE(whole(value), at) },
  bigint: { oid: 20, size: 8, write: (into, value: number, at) => writeInt64(into, whole(value), at) },
  'double precision': {
    oid: 701,
    size: 8,
    write: (into, value: number, at) => void into.writeDoubleBE(value, at),
  },
  text: { oid: 25, text: requireText },
  json: { oid: 114, text: (value: unknown) => cleanJson(JSON.stringify(value)) },
  // The format of jsonb has a version before the text.
  jsonb: { oid: 3802, text: (value: unknown) => `\u0001${JSON.stringify(value)}` },
  uuid: {
    oid: 2950,
    size: 16,
    write: (into, value: string, at) => {
      if (into.write(value.replaceAll('-', ''), at, 'hex') !== 16)
        throw new RangeError(`not a UUID: ${value}`)
    },
  },
  timestamptz: {
    oid: 1184,
    size: 8,
    write: (into, value: Date | string, at) => writeInt64(into, microsecondsOf(value) - EPOCH_US, at),
  },
  // A page and a place in it: `(12,3)`.
  tid: {
    oid: 27,
    size: 6,
    write: (into, value: string, at) => {
      const comma = value.indexOf(',')
      into.writeUInt32BE(Number(value.slice(1, comma)), at)
      into.writeUInt16BE(Number(value.slice(comma + 1, -1)), at + 4)
    },
  },
} satisfies Record<string, ElementType>

/**
 * Postgres stores these escapes of NUL and lone surrogates as json, and then fails in every `->>` that reads the value. As
 * jsonb it refuses them. `JSON.stringify` escapes a surrogate only if it is alone; any other escape is kept as a whole.
 */
const cleanJson = (json: string): string =>
  json.includes('\\u')
    ? json.replaceAll(/\\(?:u0000|ud[89a-f][0-9a-f]{2}|.)/g, (escape) =>
        /^\\u(?:0000|d)/.test(escape) ? '' : escape,
      )
    : json

/** Postgres counts from 2000-01-01. */
const EPOCH_US = Date.UTC(2000, 0, 1) * 1_000

/** Within 2^53: exact for any year up to 2255. */
function microsecondsOf(time: Date | string): number {
  const ms = time instanceof Date ? time.getTime() : Date.parse(time)
  if (Number.isNaN(ms)) throw new RangeError(`not a time: ${String(time)}`)
  const below = time instanceof Date ? '' : (/\.\d{3}(\d{1,3})/.exec(time)?.[1] ?? '')
  return ms * 1_000 + Number(below.padEnd(3, '0'))
}

/** Of anything else, what is encoded depends on its `length`. */
function requireText(value: unknown): string {
  if (typeof value !== 'string') throw new RangeError(`not a text: ${typeof value}`)
  return value
}

/** Node writes the whole part of a fraction, and zero for NaN. */
function whole(value: number): number {
  if (!Number.isSafeInteger(value)) throw new RangeError(`not a whole number: ${value}`)
  return value
}

function writeInt64(into: Buffer, value: number, at: number): void {
  const high = Math.floor(value / 2 ** 32)
  into.writeInt32BE(high, at)
  into.writeUInt32BE(value - high * 2 ** 32, at + 4)
}

const HEADER_BYTES = 20
const EMPTY_BYTES = 12

/** Bytes of a UTF-16 code unit in UTF-8, at most. */
const MAX_UTF8_BYTES = 3

/** Encoded into in turn by all batches that fit. */
const SCRATCH_BYTES = 4 * 1024 * 1024
let scratch: Buffer | null = null

/**
 * An array as a parameter in Postgres's binary format: nothing is escaped here and no text of a whole batch is parsed there.
 * The driver sends a Buffer as binary. An array without any value
 * is sent empty: `unnest` of several arrays fills the shorter ones with NULL.
 * @param values null, undefined, NaN and infinities become NULL, as JSON writes them
 * @throws RangeError for a value that is none of the type
 * @example sql`select * from unnest(${postgresArray('bigint', [1, 2])}::bigint[], ${postgresArray('jsonb', [{}, null])}::jsonb[])`
 * @see https://www.postgresql.org/docs/current/protocol-overview.html#PROTOCOL-FORMAT-CODES, array_recv in arrayfuncs.c
 */
export function postgresArray(type: ArrayType, values: readonly unknown[]): Buffer {
  const element: ElementType = TYPES[type]
  const missing = values.reduce<number>((count, value) => (isMissing(value) ? count + 1 : count), 0)
  if (missing === values.length) return writeHeader(Buffer.allocUnsafe(EMPTY_BYTES), element.oid, null, false)
  return 'text' in element ? writeTexts(element, values, missing > 0) : writeFixed(element, values, missing)
}

function writeFixed({ oid, size, write }: FixedType, values: readonly unknown[], missing: number): Buffer {
  const buffer = Buffer.allocUnsafe(HEADER_BYTES + 4 * values.length + size * (values.length - missing))
  writeHeader(buffer, oid, values.length, missing > 0)
  let at = HEADER_BYTES
  for (const value of values) {
    const isNull = isMissing(value)
    buffer.writeInt32BE(isNull ? -1 : size, at)
    if (!isNull) write(buffer, value as never, at + 4)
    at += isNull ? 4 : 4 + size
  }
  return buffer
}

/**
 * Encodes texts into a buffer that is large enough for any characters, and copies what they take: to count their bytes first
 * takes as long as to write them.
 */
function writeTexts({ oid, text }: TextType, values: readonly unknown[], hasMissing: boolean): Buffer {
  const texts = values.map((value) => (isMissing(value) ? null : text(value as never)))
  let room = HEADER_BYTES
  for (const text of texts) room += 4 + (text === null ? 0 : MAX_UTF8_BYTES * text.length)
  const buffer =
    room > SCRATCH_BYTES ? Buffer.allocUnsafeSlow(room) : (scratch ??= Buffer.allocUnsafeSlow(SCRATCH_BYTES))
  writeHeader(buffer, oid, values.length, hasMissing)
  let at = HEADER_BYTES
  for (const text of texts) {
    const bytes = text === null ? -1 : buffer.write(text, at + 4)
    buffer.writeInt32BE(bytes, at)
    at += 4 + Math.max(bytes, 0)
  }
  return Buffer.from(buffer.subarray(0, at))
}

/** @param length null: no element, and no dimension */
function writeHeader(into: Buffer, oid: number, length: number | null, hasNull: boolean): Buffer {
  into.writeInt32BE(length === null ? 0 : 1, 0)
  into.writeInt32BE(hasNull ? 1 : 0, 4)
  into.writeUInt32BE(oid, 8)
  if (length === null) return into
  into.writeInt32BE(length, 12)
  into.writeInt32BE(1, 16)
  return into
}

const isMissing = (value: unknown): boolean =>
  value === null || value === undefined || (typeof value === 'number' && !Number.isFinite(value))
