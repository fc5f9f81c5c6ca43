import { describe, expect, test } from 'vitest'
import { serializedAs } from '../../../src/init/fields.ts'
import { parseCheckLabels } from '../../../src/init/introspect.ts'
import { isCountryName, mapToLabels } from '../../../src/init/label-maps.ts'

test('maps the service’s values to labels of the same meaning', () => {
  expect(mapToLabels('seniority', ['EXECUTIVE', 'VP', 'MANAGER', 'JUNIOR'])).toEqual({
    c_suite: 'EXECUTIVE',
    executive: 'EXECUTIVE',
    cxo: 'EXECUTIVE',
    vp: 'VP',
    vice_president: 'VP',
    manager: 'MANAGER',
    lead: 'MANAGER',
    entry: 'JUNIOR',
    junior: 'JUNIOR',
  })
  expect(mapToLabels('department', ['Crane', 'Yard'])).toBeNull()
  expect(mapToLabels('department', ['People', 'R&D', 'Yard'])).toEqual({
    human_resources: 'People',
    hr: 'People',
    people: 'People',
    engineering: 'R&D',
    development: 'R&D',
    Yard: 'Yard',
  })
  expect(mapToLabels('industry', ['HEALTH_CARE', 'Space Travel'])).toEqual({
    'Health Care': 'HEALTH_CARE',
    Healthcare: 'HEALTH_CARE',
    'Space Travel': 'Space Travel',
  })
})

test('prefers an identical word to a synonym', () => {
  expect(mapToLabels('seniority', ['Manager', 'Lead'])).toMatchObject({ manager: 'Manager', lead: 'Lead' })
  expect(mapToLabels('seniority', ['Lead', 'Manager'])).toMatchObject({ manager: 'Manager', lead: 'Lead' })
})

test('ranges are compared by their numbers', () => {
  expect(mapToLabels('employees', ['SIZE_1_10', '11–50', '1,001-5,000', 'huge'])).toEqual({
    '1-10': 'SIZE_1_10',
    '11-50': '11–50',
    '1001-5000': '1,001-5,000',
  })
  expect(mapToLabels('employees', ['small', 'large'])).toBeNull()
})

test('parses labels from a check constraint', () => {
  expect(parseCheckLabels("CHECK ((stage = ANY (ARRAY['new'::text, 'it''s won'::text])))")).toEqual([
    'new',
    "it's won",
  ])
  expect(
    parseCheckLabels(
      "CHECK (((size)::text = ANY ((ARRAY['1-10'::character varying, '11+'::character varying])::text[])))",
    ),
  ).toEqual(['1-10', '11+'])
  expect(parseCheckLabels('CHECK ((amount > 0))')).toEqual([])
})

describe('ranges of the column’s own', () => {
  test('take the service’s ranges where each is inside of one', () => {
    expect(mapToLabels('employees', ['1-50', '51-200', '201-1,000', '1000+'])).toEqual({
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
    expect(mapToLabels('employees', ['1-5', '6-10', '11-50', 'über 500'])).toEqual({
      '11-50': '11-50',
      '501-1000': 'über 500',
      '1001-5000': 'über 500',
      '5001-10000': 'über 500',
      '10001+': 'über 500',
    })
  })

  test.each([[['small', 'medium', 'large']], [['10']], [[]]])('are not %j', (labels) => {
    expect(mapToLabels('employees', labels)).toBeNull()
  })
})

describe('countries', () => {
  test('codes in use become a map of their English names', () => {
    expect(mapToLabels('country', ['NO', 'US', 'NO'])).toEqual({
      Norway: 'NO',
      'United States': 'US',
      'United States of America': 'US',
      USA: 'US',
    })
    expect(mapToLabels('country', ['North', 'South', 'Norway'])).toBeNull()
    expect(mapToLabels('country', ['Deutschland', 'Großbritannien', 'USA'])).toMatchObject({
      Germany: 'Deutschland',
      'United Kingdom': 'Großbritannien',
      'United States': 'USA',
    })
    expect(mapToLabels('country', ['Allemagne', 'Pays-Bas'])).toMatchObject({
      Germany: 'Allemagne',
      Netherlands: 'Pays-Bas',
    })
    expect(mapToLabels('country', [])).toBeNull()
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
