import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { formatProblems } from '../../../src/config/problems.ts'
import { findFault, findJoinFault, renderExpression, withCaret } from '../../../src/sources/expression.ts'

const UNFINISHED = 'a string, a quoted name or a comment is never closed'

describe('findFault rejects an expression', () => {
  test.each<[string, string, number]>([
    ['lower(t.email', "'(' is never closed", 5],
    ['lower(t.email))', "')' closes nothing that this text has opened", 14],
    ['array[1)', "')' closes nothing that this text has opened", 7],
    ['true) or (true', "')' closes nothing that this text has opened", 4],
    ['1; drop table x', 'a semicolon: one expression is expected', 1],
    [`'a`, UNFINISHED, 0],
    ['"a', UNFINISHED, 0],
    ['1 /* x', UNFINISHED, 2],
    ['-- nothing', 'nothing but white space or comments', 0],
    ['  ', 'nothing but white space or comments', 0],
    ['upper($valeu)', "'$valeu' is not one of $value, $json. Did you mean '$value'?", 6],
    ['$1', "'$1' is not one of $value, $json.", 0],
  ])('%s', (text, message, at) => {
    expect(findFault(text, ['value', 'json'])).toEqual({ message, at })
  })

  test('but ignores the content of strings, quoted names and comments', () => {
    expect(findFault(`';(' || ")" || $$;$x$$ /* ( */ -- ;)`, [])).toBeNull()
    expect(findFault('$value || $json', ['value', 'json'])).toBeNull()
  })
})

describe('joins', () => {
  test.each([
    'left join a on true where x',
    'join b on true UNION select 1',
    'join b on true limit 1',
    'join b on $value',
  ])('%s is rejected', (joins) => {
    expect(findJoinFault(joins)).not.toBeNull()
  })
  test.each([
    'left join a on a.id = t.a',
    'left join lateral (select * from b where b.id = t.id order by 1 limit 1) b on true',
    `left join a on a."where" = 'limit' /* where */`,
    ', accounts a',
  ])('%s is accepted', (joins) => {
    expect(findJoinFault(joins)).toBeNull()
  })
})

describe('renderExpression', () => {
  test('replaces placeholders in code only, and blanks out comments', () => {
    const { sql } = renderExpression(
      `upper($value) || '$value' || "$value" || $$ $value $$ -- $value\n|| $json`,
      {
        value: 'b.v',
        json: 'b.j',
      },
    )
    expect(sql).toBe(`upper(b.v) || '$value' || "$value" || $$ $value $$          \n|| b.j`)
  })

  test('maps each part of the SQL to its origin', () => {
    const text = 'f($value) /* é */ + nothing + $value'
    const { sql, origin } = renderExpression(text, { value: '("~b".v ->> $$x$$)' })
    expect(text.slice(origin(sql.indexOf('nothing')))).toBe('nothing + $value')
    expect(origin(sql.indexOf('->>'))).toBe(text.indexOf('$value'))
    expect(origin(sql.lastIndexOf('->>'))).toBe(text.lastIndexOf('$value'))
    expect(origin(0)).toBe(0)
  })

  test('cannot leave its parentheses if the text has no fault', () => {
    const piece = fc.constantFrom(
      '(',
      ')',
      "'",
      '"',
      '--',
      '/*',
      '*/',
      '\n',
      '$$',
      '$value',
      'a',
      '[',
      ']',
      ' ',
      "e'",
      '\\',
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), (pieces) => {
        const text = pieces.join('')
        fc.pre(findFault(text, ['value']) === null)
        expect(findFault(`(${renderExpression(text, { value: 'b' }).sql}\n)`, [])).toBeNull()
      }),
      { numRuns: 5_000 },
    )
  })
})

test('withCaret puts a caret under the place, on its line', () => {
  expect(withCaret('one\n\ttwo three\nfour', 9)).toBe('\ttwo three\n\t    ^')
  expect(withCaret('one', 3)).toBe('one\n   ^')
  expect(withCaret('one\r\n  two\r\n', 7)).toBe('  two\n  ^')
  expect(withCaret('\n one', 0)).toBe('\n^')
})

test.each(['\n', '\r\n'])('a fault in SQL of several lines (%j) is shown under its place', (end) => {
  const text = ['exists (', '      select from accounts', '       where id = $id', '    )'].join(end)
  const fault = findFault(text, [])
  const problem = { place: 'where', found: withCaret(text, fault?.at ?? 0), expected: 'SQL', todo: null }
  const [, line = '', caret = ''] = formatProblems([problem]).split('\n')
  expect(line).toMatch(/where id = \$id$/)
  expect(caret.indexOf('^')).toBe(line.indexOf('$id'))
})
