import { describe, expect, test } from 'vitest'
import { EMPLOYEE_RANGES } from '../../../src/init/enum-labels.ts'
import { serializedAs } from '../../../src/init/fields.ts'
import { countryCodeMap, isCountryName, rangeSql, widerRangeMap } from '../../../src/init/picklists.ts'

describe('ranges of the column’s own', () => {
  test('take the service’s ranges where each is inside of one', () => {
    expect(widerRangeMap(['1-50', '51-200', '201-1,000', '1000+'], EMPLOYEE_RANGES)).toEqual({
      '1-10': '1-50',
      '11-50': '1-50',
      '51-200': '51-200',
      '201-500': '201-1,000',
      '501-1000': '201-1,000',
      '1001-5000': '1000+',
      '5001-10000': '1000+',
      '10001+': '1000+',
    })
    expect(widerRangeMap(['1-5', '6-10', '11-50'], EMPLOYEE_RANGES)).toBeNull()
  })

  test('take a number otherwise', () => {
    expect(rangeSql(['6 to 20 people', '< 6', '21+'])?.replaceAll(/\s+/g, ' ')).toBe(
      "case when $value between 0 and 6 then '< 6' when $value between 6 and 20 then '6 to 20 people' " +
        "when $value >= 21 then '21+' end",
    )
    expect(rangeSql(['$1M - $10M', '$10M - $50M', '$1B+'])).toContain('between 10000000 and 50000000')
  })

  test.each([[['small', 'medium', 'large']], [['1-100', '50-200']], [['10']], [[]]])(
    'are not %j',
    (labels) => {
      expect(rangeSql(labels)).toBeNull()
    },
  )
})

describe('countries', () => {
  test('codes in use become a map of their English names', () => {
    expect(countryCodeMap(['NO', 'US', 'NO'])).toEqual({
      Norway: 'NO',
      'United States': 'US',
      'United States of America': 'US',
      USA: 'US',
    })
    expect(countryCodeMap(['Norway', 'US'])).toBeNull()
    expect(countryCodeMap([])).toBeNull()
  })

  test.each([
    ['Norway', true],
    ['united kingdom', true],
    ['USA', true],
    ['Norge', false],
    ['NO', false],
  ])('%s is an English name: %s', (name, is) => {
    expect(isCountryName(name)).toBe(is)
  })
})

test.each([
  [['["a", "b"]', '[]'], 'JSON'],
  [['---\n- 1\n- 2\n'], 'YAML'],
  [['a:1:{i:0;s:1:"x";}'], 'serialized PHP'],
  [['React, Go'], null],
  [['[draft] React'], null],
  [[], null],
])('values like %j are %s', (values, kind) => {
  expect(serializedAs(values)).toBe(kind)
})
