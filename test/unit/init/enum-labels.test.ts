import { expect, test } from 'vitest'
import { mapToLabels } from '../../../src/init/enum-labels.ts'
import { parseCheckLabels } from '../../../src/init/introspect.ts'

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
  expect(mapToLabels('department', ['People', 'R&D', 'Yard'])).toEqual({
    human_resources: 'People',
    hr: 'People',
    people: 'People',
    engineering: 'R&D',
    development: 'R&D',
    yard: 'Yard',
  })
  expect(mapToLabels('industry', ['HEALTH_CARE', 'SPACE_TRAVEL'])).toEqual({
    'Health Care': 'HEALTH_CARE',
    Healthcare: 'HEALTH_CARE',
    'Space Travel': 'SPACE_TRAVEL',
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
