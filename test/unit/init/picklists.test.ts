import { describe, expect, test } from 'vitest'
import { EMPLOYEE_RANGES } from '../../../src/init/enum-labels.ts'
import { serializedAs } from '../../../src/init/fields.ts'
import { countryMap, isCountryName, widerRangeMap } from '../../../src/init/picklists.ts'

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
    // A range of the service that would be split has no place.
    expect(widerRangeMap(['1-5', '6-10', '11-50', 'über 500'], EMPLOYEE_RANGES)).toEqual({
      '11-50': '11-50',
      '501-1000': 'über 500',
      '1001-5000': 'über 500',
      '5001-10000': 'über 500',
      '10001+': 'über 500',
    })
  })

  test.each([[['small', 'medium', 'large']], [['10']], [[]]])('are not %j', (labels) => {
    expect(widerRangeMap(labels, EMPLOYEE_RANGES)).toBeNull()
  })
})

describe('countries', () => {
  test('codes in use become a map of their English names', () => {
    expect(countryMap(['NO', 'US', 'NO'])).toEqual({
      Norway: 'NO',
      'United States': 'US',
      'United States of America': 'US',
      USA: 'US',
    })
    expect(countryMap(['Norway', 'US'])).toBeNull()
    expect(countryMap(['Deutschland', 'Großbritannien', 'USA'])).toMatchObject({
      Germany: 'Deutschland',
      'United Kingdom': 'Großbritannien',
      'United States': 'USA',
    })
    expect(countryMap(['Allemagne', 'Pays-Bas'])).toMatchObject({
      Germany: 'Allemagne',
      Netherlands: 'Pays-Bas',
    })
    expect(countryMap([])).toBeNull()
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
