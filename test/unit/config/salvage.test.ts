import { describe, expect, test } from 'vitest'
import { InvalidConfig, parseConfig } from '../../../src/config/parse.ts'
import type { Config } from '../../../src/config/config.ts'

const source = (changes: object = {}): object => ({
  kind: 'person',
  table: 'people',
  inputs: { email: 't.email' },
  outputs: { title: 'title' },
  ...changes,
})

/** What is left of an invalid configuration. */
function usable(config: unknown): Config | null {
  try {
    parseConfig(config, null)
  } catch (error) {
    if (error instanceof InvalidConfig) return error.usable
    throw error
  }
  throw new Error('the configuration is valid')
}

describe('what is valid of a configuration', () => {
  test.each([
    ['an unknown key at the top', { sources: { people: source() }, bugdet: 5 }],
    ['a wrong option at the top', { sources: { people: source() }, budget: 'much' }],
    ['an unknown key of a source', { sources: { people: source({ wher: 'true' }) } }],
    ['a wrong option of a source', { sources: { people: source({ where: '' }) } }],
    ['a wrong entry of the schedule', { sources: { people: source() }, schedule: [{ cron: 'never' }] }],
    ['a schedule without a budget', { sources: { people: source() }, schedule: [{ cron: '0 2 * * *' }] }],
    ['another source that is wrong', { sources: { people: source(), other: { kind: 'person' } } }],
  ])('%s: the source stays', (_, config) => {
    const left = usable(config)
    expect(left?.sources['people']).toMatchObject({
      table: 'people',
      inputs: { email: 't.email' },
      outputs: [{ column: 'title', field: 'title', sql: null }],
    })
  })

  test('a wrong field: its column stays, to be looked up', () => {
    const outputs = {
      titel: 'titel',
      phone: { field: 'phone', policy: 'often' },
      level: { fild: 'seniority' },
    }
    expect(usable({ sources: { people: source({ outputs }) } })?.sources['people']?.outputs).toMatchObject([
      { column: 'titel', sql: 'null' },
      { column: 'phone' },
      { column: 'level', sql: 'null' },
    ])
  })

  test('wrong inputs: the source stays, and finds nothing', () => {
    const left = usable({
      sources: {
        people: source({ inputs: { domain: 't.website' } }),
        partial: source({ inputs: { email: 't.email', name: 't.name' } }),
        company: source({ kind: 'company', outputs: { name: 'name' } }),
      },
    })
    expect(Object.values(left?.sources ?? {}).map(({ inputs }) => inputs)).toEqual([
      { email: 'null' },
      { email: 'null' },
      { domain: 'null' },
    ])
  })

  test('without a table or kind a source is left out; without any source, nothing is left', () => {
    expect(usable({ sources: { people: source({ table: 7 }), other: source() } })?.sources).toHaveProperty(
      'other',
    )
    expect(
      usable({ sources: { people: source({ table: 7 }), other: source() } })?.sources,
    ).not.toHaveProperty('people')
    for (const config of [
      { sources: { people: source({ kind: 'robot' }) } },
      { sources: {} },
      {},
      [],
      null,
      'sources',
      { sources: [source()] },
    ])
      expect(usable(config)).toBeNull()
  })

  test('the configuration itself is not changed, and may contain itself', () => {
    const config: Record<string, unknown> = { sources: { people: source({ where: '' }) } }
    config['self'] = config
    expect(usable(config)?.sources).toHaveProperty('people')
    expect(config).toHaveProperty('sources.people.where', '')
  })
})
