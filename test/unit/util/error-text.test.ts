import { describe, expect, test } from 'vitest'
import {
  describeError,
  describeServerError,
  FillrateError,
  type DatabaseError,
} from '../../../src/util/error-text.ts'

const VALUE = 'Zyxqwv'
/** An error as pg throws it. */
const thrown = (fields: DatabaseError & Record<string, unknown>): Error =>
  Object.assign(new Error(fields.message), fields)

describe('an error from Postgres', () => {
  test.each<[string, string, string]>([
    [
      '22P02',
      `invalid input syntax for type integer: "${VALUE}"`,
      'invalid input syntax for type integer (22P02)',
    ],
    [
      '22P02',
      `invalid input syntax for type integer: "${VALUE}"" (x) "${VALUE}"`,
      'invalid input syntax for type integer (22P02)',
    ],
    [
      '22P02',
      `ungültige Eingabesyntax für Typ integer: »${VALUE}«`,
      'ungültige Eingabesyntax für Typ integer (22P02)',
    ],
    [
      '22007',
      `valeur du champ date/time en dehors des limites : « ${VALUE} »`,
      'valeur du champ date/time en dehors des limites (22007)',
    ],
    ['22023', `タイムゾーン"${VALUE}"を認識できません`, 'タイムゾーン…を認識できません (22023)'],
    ['22P02', `invalid input value for enum mood: “${VALUE}”`, 'invalid input value for enum mood (22P02)'],
    ['22023', `time zone "${VALUE}" not recognized`, 'time zone … not recognized (22023)'],
    ['42P01', `relation "${VALUE}" does not exist`, 'relation … does not exist (42P01)'],
    ['XX000', `Syntax error near '${VALUE}' at position 0`, 'Syntax error near … at position 0 (XX000)'],
    [
      '23505',
      `duplicate key value violates unique constraint "${VALUE}"`,
      'unique conflict on a_key: another row holds that value',
    ],
    ['23502', `null value in column "x"`, 'not null: a column may not be empty'],
    ['22001', 'value too long for type character varying(4)', 'a value is too long for its column'],
    [
      '57P01',
      'terminating connection due to administrator command',
      'terminating connection due to administrator command (57P01)',
    ],
    ['42501', 'permission denied for table contacts', 'permission denied for table contacts (42501)'],
    ['42883', 'function lower(int4) does not exist', 'function lower(int4) does not exist (42883)'],
    ['P0001', `closed for ${VALUE}`, 'raised by a trigger or function'],
    ['CRM01', `closed for ${VALUE}`, 'raised by a trigger or function (CRM01)'],
  ])('%s %s', (code, message, expected) => {
    const others = {
      detail: `Key (email)=(${VALUE})`,
      hint: VALUE,
      internalQuery: VALUE,
      constraint: 'a_key',
    }
    expect(describeError(thrown({ code, message, ...others }))).toBe(expected)
  })

  test('that the parser raised keeps the names of the statement, and no address', () => {
    const message = 'column "x" does not exist'
    expect(describeError(thrown({ code: '42703', message, position: '8' }))).toBe(`${message} (42703)`)
    expect(
      describeError(thrown({ code: '42703', message: 'column "a@b.no" does not exist', position: '8' })),
    ).toBe('column "…" does not exist (42703)')
  })
})

describe('what a function raised is told by its source, the same for every row', () => {
  const raise = (statement: string, message: string, code = 'P0001', where?: string): string =>
    describeServerError({
      code,
      message,
      where: where ?? 'PL/pgSQL function crm.guard(integer) line 3 at RAISE\nSQL statement "x"',
      source: `\nbegin\n  ${statement}\nend`,
    })
  const RAISED = 'raised by a trigger or function: '
  test.each<[string, string, string]>([
    [`raise 'contact % is locked', new.id;`, 'contact 7 is locked', 'contact … is locked'],
    [
      `raise exception 'the title % is not one', new.title;`,
      'the title title is not one',
      'the title … is not one',
    ],
    [`raise exception '% (%) is 5%%', a, b;`, `${VALUE} (${VALUE}) is 5%`, '… (…) is 5%'],
    [`if a then raise 'it''s %', b; end if; raise 'one %', c;`, 'one Ada', 'one …'],
    [`raise exception using message = 'no ' || new.title;`, `no ${VALUE}`, 'crm.guard(integer), line 3'],
    [`assert a, 'not this one';`, 'not this one', 'not this one'],
  ])('%s', (statement, message, expected) => {
    expect(raise(statement, message)).toBe(RAISED + expected)
    expect(raise(statement, message, 'CRM01')).toBe(
      expected.startsWith('crm.') ? `${RAISED}${expected} (CRM01)` : `${expected} (CRM01)`,
    )
  })
  test.each([
    'PL/pgSQL-Funktion crm.guard() Zeile 3 bei RAISE',
    'fonction PL/pgSQL crm.guard(), ligne 3 à RAISE',
    'функция PL/pgSQL crm.guard(), строка 3, оператор RAISE',
    'PL/pgSQL関数crm.guard()の3行目 - RAISE',
    'PL/pgSQL 함수 "crm.guard()" 의 3번째 RAISE',
    '在RAISE的第3行的PL/pgSQL函数crm.guard()',
  ])('%s: also with a code of Postgres', (where) => {
    expect(raise(`raise 'no %', a using errcode = '23505';`, `no ${VALUE}`, '23505', where)).toBe(
      'no … (23505)',
    )
  })
  test('a name in its source is no value', () => {
    const where = 'PL/pgSQL function crm.guard() line 3 at SQL statement'
    const missing = (name: string) =>
      raise('perform from nothing;', `relation "${name}" does not exist`, '42P01', where)
    expect(missing('nothing')).toBe('relation "nothing" does not exist (42P01)')
    expect(missing(VALUE)).toBe('relation … does not exist (42P01)')
    expect(missing(`x" ${VALUE} "y`)).toBe('relation … does not exist (42P01)')
  })
})

test.each<[Error, string]>([
  [new FillrateError(`source 'contacts' has 1200 rows`), `source 'contacts' has 1200 rows`],
  [
    new SyntaxError(`Unexpected token 'Z', ..."a": ${VALUE} "... is not valid JSON`),
    'a text that cannot be parsed',
  ],
  [new TypeError(`cannot read '${VALUE}'`), 'cannot read …'],
  [new Error(`contact 4711 (${VALUE}@x.example, +47 22 00 00 00) is locked`), 'contact … (…) is locked'],
  [new Error(`“${VALUE}” may not change 'title' of cust_0017`), '… of …'],
  [new Error('it may not become <NULL>'), 'it may not become …'],
  [new Error('changed at 2026-11-22 06:00:00, retry'), 'changed at …, retry'],
  [new Error("can't change it, it's closed"), "can't change it, it's closed"],
  [new Error(`GET /person?email=${VALUE}%40x.example failed`), 'GET /person?email=… failed'],
  [
    Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:5432'), {
      syscall: 'connect',
      code: 'ECONNREFUSED',
    }),
    'connect ECONNREFUSED 127.0.0.1:5432',
  ],
  [new AggregateError([new FillrateError('both failed')]), 'both failed'],
])('another error: %s', (error, expected) => {
  expect(describeError(error)).toBe(expected)
})
