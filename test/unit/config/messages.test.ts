import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { ConfigProblems, formatProblems } from '../../../src/config/problems.ts'
import { describeValue, didYouMean, maskPasswords } from '../../../src/util/text.ts'

describe('problems', () => {
  const problem = {
    place: 'sources.contacts.outputs.title.policy',
    found: "'blnk'",
    expected: "'blank', 'tracked' or 'always'",
    todo: "Did you mean 'blank'?",
  }

  test('are printed with their place, what was found, expected and to do', () => {
    const lines = formatProblems([
      problem,
      { place: 'FILLRATE_PORT', found: 'a\n  ^', expected: 'word '.repeat(30).trim(), todo: null },
    ])
    expect(lines).toBe(
      [
        '  sources.contacts.outputs.title.policy',
        "    found     'blnk'",
        "    expected  'blank', 'tracked' or 'always'",
        "    to do     Did you mean 'blank'?",
        '',
        '  FILLRATE_PORT',
        '    found     a',
        '                ^',
        `    expected  ${'word '.repeat(17).trim()}`,
        `              ${'word '.repeat(13).trim()}`,
      ].join('\n'),
    )
  })

  test('are one error with a message for the terminal and its cause', () => {
    const cause = new Error('why')
    const error = new ConfigProblems('/crm/fillrate.config.json', [problem, problem], { cause })
    expect(error.message).toBe(
      `2 problems in /crm/fillrate.config.json:\n\n${formatProblems([problem, problem])}`,
    )
    expect(error.cause).toBe(cause)
    expect(new ConfigProblems('the environment', [problem]).message).toMatch(
      /^1 problem in the environment:\n/,
    )
  })
})

describe('a value in a message', () => {
  test.each([
    [undefined, 'nothing'],
    [null, 'null'],
    ['', 'an empty text'],
    ['\u00a0', 'white space'],
    ["it's", "'it's'"],
    ['a "b"', `'a "b"'`],
    ['\u001b[2J\n\u009b', "'\\u001b[2J\\n\\u009b'"],
    ['x'.repeat(100), `'${'x'.repeat(79)}…'`],
    [[1], 'a list'],
    [{}, 'an empty object'],
    [{ a: 1 }, 'an object'],
    [() => 1, 'a function'],
    [/x/i, '/x/i'],
    [5n, '5'],
    ['postgres://jane:s3cret@host/crm', "'postgres://jane:***@host/crm'"],
  ])('%o', (value, shown) => {
    expect(describeValue(value)).toBe(shown)
  })

  test('contains no control character and no password', () => {
    const password = fc.stringMatching(/^[a-z@:/?#%]{8,20}$/)
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), password, (text, secret) => {
        expect(describeValue(text)).not.toMatch(/\p{Cc}/u)
        expect(maskPasswords(`postgres://jane:${secret}@host/crm?sslpassword=${secret}`)).not.toContain(
          secret,
        )
      }),
    )
  })
})

describe('a suggestion', () => {
  test.each([
    ['titel', "Did you mean 'title'?"],
    ['TITLE', "Did you mean 'title'?"],
    ['job_title', "Did you mean 'title'?"],
    ['phoneNumber', "Did you mean 'phone'?"],
    ['first_name', "Did you mean 'name.first'?"],
    ['name', "Did you mean 'name.full', 'name.first' or 'name.last'?"],
    ['shoe_size', null],
    ['x', null],
    ['', null],
  ])('for %j', (word, suggestion) => {
    expect(didYouMean(word, ['title', 'phone', 'name.full', 'name.first', 'name.last', 'id'])).toBe(
      suggestion,
    )
  })
})
