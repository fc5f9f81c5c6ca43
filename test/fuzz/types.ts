import type { Random } from './random.ts'

/** The field of a record for a column. */
export interface RecordField {
  /** The JSON in the record. */
  readonly json: string
  /** The text for Postgres to cast; null where Fillrate must detect that the value does not fit. */
  readonly text: string | null
}

/** A column type, with values that users type and that the service returns. */
export interface FuzzType {
  readonly sql: string
  /** SQL literals of values that users typed. */
  readonly typed: (random: Random) => string
  /** SQL literals that count as blank besides NULL. */
  readonly blanks: readonly string[]
  readonly field: (random: Random) => RecordField
  /** SQL that casts a text literal: the cast decides what the cell must hold. */
  readonly cast: (literal: string) => string
  /** SQL for whether two values are equal to Fillrate, so that neither replaces the other. */
  readonly same: (a: string, b: string) => string
  /** Only the database rejects a value that does not fit, and with it the row. */
  readonly isForeign: boolean
}

export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`

const asText = (a: string, b: string): string => `${a}::text is not distinct from ${b}::text`
const asValue = (a: string, b: string): string => `${a} is not distinct from ${b}`

function type(sql: string, rest: Partial<FuzzType> & Pick<FuzzType, 'typed' | 'field'>): FuzzType {
  return { sql, blanks: [], cast: (text) => `${text}::${sql}`, same: asText, isForeign: false, ...rest }
}

const WORDS = [
  'CTO',
  'Sales & Marketing',
  `O'Brien "Bo"`,
  String.raw`C:\dir\n`,
  'æøå 😀',
  'NULL',
  '{a,b}',
  '(x,1)',
  'N/A',
  '0',
  'VP, EMEA',
  'a\nb',
  'ﬁne',
  'x'.repeat(80),
  'é'.repeat(40),
  '$value',
  '%s :x ?',
]
const word = (random: Random): string => random.pick(WORDS)
const json = (value: unknown): string => JSON.stringify(value)
const stringOf = (text: string): RecordField => ({ json: json(text), text })
const TEXT_BLANKS = [`''`, `'  '`, `E'\\t\\u00a0'`]

/** A text type with a maximum number of characters. */
function textType(sql: string, characters: number | null): FuzzType {
  const fit = (text: string): string => (characters === null ? text : [...text].slice(0, characters).join(''))
  return type(sql, {
    blanks: TEXT_BLANKS,
    typed: (random) => literal(fit(word(random)).trimEnd()),
    field: (random) => {
      const text = random.chance(0.1)
        ? random.digits(1, 9).replace(/^0+(?=\d)/, '') + random.pick(['', '.50', '.0'])
        : word(random)
      const isNumber = /^\d+(\.\d+)?$/.test(text) && random.chance(0.5)
      const fitted = fit(text)
      const isLong = fitted !== text
      const kept = isLong ? null : fitted
      return { json: isNumber ? text : json(text), text: kept }
    },
  })
}

function wholeType(sql: string, bits: 16 | 32 | 64): FuzzType {
  const most = 2n ** BigInt(bits - 1)
  return type(sql, {
    typed: (random) => literal(String(BigInt(random.digits(1, 4)) - 500n)),
    field: (random) => {
      if (random.chance(0.1)) return { json: json(random.pick(['abc', '1.5', '1e'])), text: null }
      const number = random.chance(0.3)
        ? random.pick([most - 1n, -most, most, -most - 1n])
        : BigInt(random.digits(1, random.pick([2, 6, 17])))
      const fits = BigInt.asIntN(bits, number) === number
      const text = random.pick([String(number), `${number}.0`])
      return { json: random.chance(0.5) ? text : json(text), text: fits ? String(number) : null }
    },
  })
}

const decimal = (random: Random, whole: number, fraction: number): string =>
  `${random.pick(['', '-'])}${random.digits(1, whole).replace(/^0+(?=\d)/, '')}${random.chance(0.7) ? `.${random.digits(1, fraction)}` : ''}`

function numberType(sql: string, whole: number, fraction: number, held: readonly string[]): FuzzType {
  return type(sql, {
    same: asValue,
    typed: (random) => (random.chance(0.3) ? literal(random.pick(held)) : literal(decimal(random, 3, 3))),
    field: (random) => {
      if (random.chance(0.1)) return { json: json('12,5'), text: null }
      // jsonb does not keep `-0`.
      const text = decimal(random, whole, fraction).replace(/^-(?=0*\.?0*$)/, '')
      return { json: random.chance(0.6) ? text : json(text), text }
    },
  })
}

const pad = (n: number, digits = 2): string => String(n).padStart(digits, '0')
const day = (random: Random): string =>
  `${random
    .pick([random.int(1900, 2100), random.int(1, 999)])
    .toString()
    .padStart(4, '0')}-${pad(random.int(1, 12))}-${pad(random.int(1, 28))}`
const time = (random: Random): string =>
  `${pad(random.int(0, 23))}:${pad(random.int(0, 59))}:${pad(random.int(0, 59))}${random.chance(0.4) ? `.${random.digits(1, 6)}` : ''}`
const ZONES = ['Z', '+00:00', '+05:30', '-03:00']

const NO_TIME: RecordField = { json: json('yesterday-ish'), text: null }

/** A type that Fillrate knows only as a cast from text. */
function foreignType(
  sql: string,
  good: readonly string[],
  bad: readonly string[],
  blanks: readonly string[] = [],
): FuzzType {
  return type(sql, {
    isForeign: true,
    blanks,
    typed: (random) => literal(random.pick(good)),
    field: (random) => stringOf(random.pick(random.chance(0.15) && bad.length > 0 ? bad : good)),
  })
}

const element = (text: string): string => `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`

function arrayType(of: FuzzType, more: readonly string[], sameAs = of.same): FuzzType {
  const sql = `${of.sql}[]`
  return type(sql, {
    blanks: [`'{}'`],
    same: sameAs,
    isForeign: of.isForeign,
    typed: (random) =>
      random.chance(0.4) && more.length > 0
        ? literal(random.pick(more))
        : `array[${random.list(1, 3, () => of.typed(random)).join(', ')}]::${sql}`,
    field: (random) => {
      const items = random.list(1, 3, () => of.field(random))
      const texts = items.map((item) => item.text)
      const text = texts.includes(null) ? null : `{${texts.map((one) => element(one ?? '')).join(',')}}`
      const [only] = items
      const isAlone = items.length === 1 && random.chance(0.3) && !only?.json.startsWith('[')
      return { json: isAlone ? (only?.json ?? '') : `[${items.map((item) => item.json).join(', ')}]`, text }
    },
  })
}

const ANY_JSON = [
  '{"b": 1,  "a": 2}',
  '[1.0, 12345678901234567890, 0.10]',
  '9007199254740993',
  '"text"',
  'true',
  '{"n": {"deep": [1, "2", null]}}',
  '12.50',
  '"123"',
]
const jsonValue = (random: Random): RecordField => {
  const text = random.pick(ANY_JSON)
  return { json: text, text }
}
const jsonb = type('jsonb', {
  blanks: [`'null'`, `'[]'`, `'""'`, `'" "'`],
  same: asValue,
  typed: (random) => literal(random.pick([...ANY_JSON, '{}', '0', 'false'])),
  field: jsonValue,
})

const mood = type('mood', {
  typed: (random) => literal(random.pick(['Good', 'so so'])),
  field: (random) => {
    const text = random.pick(['Good', 'so so', 'good'])
    return { json: json(text), text: text === 'good' ? null : text }
  },
})
const int = wholeType('int', 32)
const numeric = numberType('numeric', 20, 20, ['12.50', '0.00', 'NaN'])
const float8 = numberType('float8', 8, 7, ['-0', '0.30000000000000004', 'Infinity', '1e-300'])
const timestamptz = type('timestamptz', {
  typed: (random) =>
    literal(random.pick([`${day(random)} ${time(random)}+00`, 'infinity', '0044-03-15 12:00:00+00 BC'])),
  field: (random) =>
    random.chance(0.1) ? NO_TIME : stringOf(`${day(random)}T${time(random)}${random.pick(ZONES)}`),
})
const text = textType('text', null)
const pair = foreignType('pair', ['("x y",2)', '(a,)', '("q""q",-1)'], ['(a', 'x'])
const bits = (sql: string, length: number, isExact: boolean): FuzzType =>
  type(sql, {
    typed: () => literal(isExact ? '0'.repeat(length - 1) + '1' : '01'),
    field: (random) => {
      const sent = random.pick(['', '0', '1']) + random.pick(['101', '0110', '1111111', '0'])
      const isLong = sent.length > length
      const kept = isLong ? null : sent
      return { json: json(sent), text: kept !== null && isExact && kept.length < length ? null : kept }
    },
  })

/** Domains, one over `timestamptz` and one over an array. */
export const DOMAINS = `create domain public.short as varchar(5) check (value <> 'bad');
  create domain public.moment as timestamptz; create domain public.pairs as public.pair[]`

export const TYPES: readonly FuzzType[] = [
  text,
  textType('varchar(8)', 8),
  textType('char(6)', 6),
  textType('ext.citext', null),
  wholeType('smallint', 16),
  int,
  wholeType('bigint', 64),
  numeric,
  numberType('numeric(30,2)', 20, 12, ['12.50', '0.10']),
  float8,
  numberType('real', 4, 2, ['-0', '0.1', 'NaN']),
  type('boolean', {
    typed: (random) => random.pick(['true', 'false']),
    field: (random) =>
      random.pick<RecordField>([
        { json: 'true', text: 'true' },
        { json: 'false', text: 'false' },
        { json: '"Yes"', text: 'true' },
        { json: '0', text: 'false' },
        { json: '1.0', text: 'true' },
        { json: '"maybe"', text: null },
      ]),
  }),
  type('date', {
    typed: (random) => literal(random.pick([day(random), '0044-03-15 BC', 'infinity'])),
    field: (random) =>
      random.chance(0.1)
        ? NO_TIME
        : stringOf(day(random) + (random.chance(0.3) ? `T${time(random)}${random.pick(ZONES)}` : '')),
    cast: (one) => `left(${one}, 10)::date`,
  }),
  type('timestamp', {
    typed: (random) =>
      literal(random.pick([`${day(random)} ${time(random)}`, '-infinity', '0044-03-15 12:00:00 BC'])),
    field: (random) => (random.chance(0.1) ? NO_TIME : stringOf(`${day(random)}T${time(random)}`)),
  }),
  timestamptz,
  type('uuid', {
    typed: (random) => `md5(${literal(random.digits(1, 5))})::uuid`,
    field: (random) =>
      random.chance(0.15)
        ? { json: json('no-uuid'), text: null }
        : stringOf(`${random.digits(8, 8)}-1234-4234-8234-${random.digits(12, 12)}`),
  }),
  mood,
  { ...textType('short', 5), isForeign: true },
  jsonb,
  {
    ...jsonb,
    sql: 'json',
    typed: (random) =>
      literal(
        random.pick([...ANY_JSON, '{"a":1,  "a": 2}', String.raw`"a\u0000b"`, String.raw`{"\u0000": 1e2}`]),
      ),
    cast: (one) => `(${one}::jsonb)::text::json`,
    same: (a, b) =>
      `case when strpos(${a}::text, '\\u0000') > 0 then false else ${a}::text::jsonb is not distinct from ${b}::text::jsonb end`,
  },
  arrayType(text, ['{{a,b},{c,d}}', '[0:1]={a,"b c"}', '{NULL,x}', '{NULL}']),
  arrayType(int, ['{{1,2},{3,4}}', '[5:6]={1,NULL}'], asValue),
  arrayType(numeric, ['{1.10,12345678901234567890.5}'], asValue),
  arrayType(float8, ['{0.30000000000000004,-0}'], asValue),
  arrayType(timestamptz, [], asValue),
  arrayType(mood, ['{Good,NULL}'], asValue),
  arrayType(textType('ext.citext', null), []),
  // An array's elements are cast one by one: JSON null would be omitted.
  { ...arrayType(jsonb, ['{"\\"123\\"",123,null}'], asText) },
  foreignType('interval', ['1 year -2 days 03:04:05.6', '-00:00:01', '24:00:00', '1 mon'], ['soon']),
  foreignType('tstzrange', ['[2020-01-01 00:00:00+00,)', '(,2021-01-01 00:00:00+00]', 'empty'], ['[2,1)']),
  foreignType('int4range', ['[1,5)', 'empty'], ['[5,1)', 'x']),
  foreignType('int4multirange', ['{[1,5),[7,9)}', '{}'], ['[1,5)']),
  pair,
  arrayType(pair, []),
  foreignType('ext.hstore', ['a=>1, "b c"=>NULL', 'k=>v'], ['not hstore'], [`''`]),
  foreignType('ext.ltree', ['a.b', 'c'], ['Sales & Marketing'], [`''`]),
  foreignType('bytea', [String.raw`\x00ff5c`, 'plain'], [String.raw`\x0`]),
  bits('bit(4)', 4, true),
  bits('bit varying(6)', 6, false),
  foreignType('inet', ['10.0.0.1', '10.0.0.2/8', '::1'], ['10.0.0.300']),
  foreignType('macaddr', ['08:00:2b:01:02:03'], ['x']),
  foreignType('point', ['(0.30000000000000004,-0)', '(1,2)'], ['(1,']),
  foreignType('box', ['(1,1),(0.1,0.2)'], ['()']),
  foreignType('money', ['12.50', '-0.01'], ['lots']),
  foreignType('xml', ['<a  b="1"/>', 'text &amp; <c/>'], ['<a>']),
  foreignType('tsvector', [`'a b':1 c`, 'x:2'], [], [`''`]),
  foreignType('tsquery', [`'a' & 'b'`, 'x'], ['a b']),
  foreignType('jsonpath', ['$.a', '$[*] ? (@ > 1)'], ['$.']),
  foreignType('time(0)', ['23:59:59', '01:02:03.6'], ['25:00']),
  foreignType('timetz', ['01:02:03+05:30', '23:59:59.123456-03'], ['noon-ish']),
  foreignType('cidr', ['10.0.0.0/8', '::/0'], ['10.0.0.1/8']),
  foreignType('circle', ['<(0.1,0.2),3>'], ['<']),
  foreignType('oid', ['17', '4294967295'], ['x']),
  foreignType('tstzmultirange', ['{[2020-01-01 00:00:00+00,2021-01-01 00:00:00+00)}', '{}'], ['x']),
  { ...arrayType(pair, []), sql: 'pairs', cast: (one) => `${one}::pairs` },
  { ...timestamptz, sql: 'timestamptz(3)', cast: (one) => `${one}::timestamptz(3)` },
  { ...timestamptz, sql: 'moment', cast: (one) => `${one}::moment` },
  arrayType({ ...textType('varchar(4)', 4), sql: 'varchar(4)' }, []),
  arrayType(bits('bit varying(6)', 6, false), ['{{1,0},{01,10}}']),
  arrayType(foreignType('ext.hstore', ['a=>1, "b c"=>NULL', 'k=>v'], ['not hstore']), ['{{"a=>1"}}']),
  arrayType(foreignType('interval', ['1 year -2 days 03:04:05.6', '24:00:00'], ['soon']), []),
  foreignType('pg_lsn', ['16/B374D848'], ['x']),
]

/** Primary keys: column names, types, and SQL for their values from a number `g`. */
export const KEYS: readonly (readonly (readonly [name: string, type: string, value: string])[])[] = [
  [['id', 'int', 'g']],
  [['id', 'bigint', '9007199254740993 + g * 900719925474099']],
  [['id', 'text', `case when g % 2 = 0 then 'K' else 'k' end || md5(g::text)`]],
  [['id', 'varchar(20)', `'k ' || g`]],
  [['id', 'char(8)', 'g::text']],
  [['id', 'uuid', 'md5(g::text)::uuid']],
  [['id', 'ext.citext', `case when g % 2 = 0 then 'K' else 'k' end || md5(g::text)`]],
  [['id', 'date', `date '1999-12-31' + g`]],
  [['id', 'timestamptz', `'2000-01-01 00:00:00.000001+00'::timestamptz + g * interval '1 hour'`]],
  [['id', 'numeric(10,2)', 'g * 1.10']],
  [['id', 'bytea', "decode(md5(g::text), 'hex')"]],
  [['id', 'inet', `'10.0.0.0'::inet + g`]],
  [['id', 'interval', `g * interval '-1 day 1 hour'`]],
  [
    ['tenant', 'ext.citext', `case when g % 3 = 0 then 'A' when g % 3 = 1 then 'b' else 'C' end`],
    ['id', 'int', 'g'],
  ],
  [
    ['id', 'int', 'g'],
    ['"a ""key"""', 'text', `'["' || g`],
  ],
]

/** Values of a jsonb column of which a key is filled, and whether that key is blank and reachable. */
export const HOLDERS: readonly (readonly [value: string, isBlank: boolean, isReachable: boolean])[] = [
  [`'{}'`, true, true],
  [`'null'`, true, true],
  [`'{"x": 1.50, "k": null}'`, true, true],
  [`'{"k": " "}'`, true, true],
  [`'{"k": "typed", "y": []}'`, false, true],
  [`'{"k": 0}'`, false, true],
  [`'"text"'`, false, false],
  [`'[1]'`, false, false],
]
