import { describe, expect, expectTypeOf, test } from 'vitest'
import type { z } from 'zod'
import {
  defineConfig,
  type ConfigInput,
  type Duration,
  type OutputConfig,
  type SourceConfig,
} from '../../../src/config/define.ts'
import { parseConfig } from '../../../src/config/load.ts'
import { ConfigProblems } from '../../../src/config/problems.ts'
import type { createConfigSchema } from '../../../src/config/config-schema.ts'
import type { serviceSchema } from '../../../src/config/service-schema.ts'
import type { ServiceDefinition } from '../../../src/domain/service/adapter.ts'
import { good } from './valid-config.ts'

type ConfigSchema = ReturnType<typeof createConfigSchema>

/** Without `readonly`, which zod's types leave out and which makes no difference to what may be written. */
type Writable<T> = T extends RegExp
  ? T
  : T extends ReadonlyArray<infer Item>
    ? Array<Writable<Item>>
    : T extends object
      ? { -readonly [Key in keyof T]: Writable<T[Key]> }
      : T

/**
 * Each value that a configuration may have, with the path of its key: `.sources.*.outputs.*.policy: blank`. Texts of a
 * pattern, such as a duration, are texts.
 */
type Paths<T, At extends string = ''> = T extends string
  ? {} extends Record<T, 1>
    ? `${At}: text`
    : `${At}: ${T}`
  : T extends boolean
    ? `${At}: ${T}`
    : T extends number
      ? `${At}: number`
      : T extends RegExp
        ? `${At}: pattern`
        : T extends (...values: never[]) => unknown
          ? `${At}: function`
          : T extends ReadonlyArray<infer Item>
            ? Paths<Item, `${At}[]`>
            : {
                [Key in keyof T & (string | number)]-?: Paths<
                  Exclude<T[Key], undefined>,
                  `${At}.${string extends Key ? '*' : number extends Key ? '*' : Key}`
                >
              }[keyof T & (string | number)]

/*
 * tsc checks this file: an expected error that does not come is an error itself. Each mistake is held against
 * the schema too, so that what one of them rejects the other does not accept.
 */
const { contacts, accounts } = good.sources
const person = (changes: Partial<SourceConfig<'person'>>) =>
  defineConfig({ sources: { contacts: { ...contacts, ...changes } } })
const company = (changes: Partial<SourceConfig<'company'>>) =>
  defineConfig({ sources: { accounts: { ...accounts, ...changes } } })

/** Paths of the schema's issues. */
function wrong(config: unknown): string[] {
  try {
    parseConfig(config, null)
  } catch (error) {
    if (error instanceof ConfigProblems) return error.problems.map((problem) => problem.place)
    throw error
  }
  return []
}

describe('defineConfig', () => {
  test('accepts what the schema accepts', () => {
    expectTypeOf<Writable<ConfigInput>>().toExtend<z.input<ConfigSchema>>()
    // Fields of records are the service's: the schema is made for it.
    type Described = Paths<ConfigInput<string, string, string, never, string>>
    type Accepted = Paths<z.input<ConfigSchema>>
    expectTypeOf<Exclude<Accepted, Described>>().toBeNever()
    expectTypeOf<Exclude<Described, Accepted>>().toBeNever()
    const config = defineConfig({
      sources: {
        contacts: {
          ...contacts,
          inputs: { name: 't.name', company: 't.company' },
          outputs: {
            employer: 'company.name',
            phone: { field: 'phone', policy: 'tracked', matches: /^\+/ },
            twitter: { field: 'social.twitter', unlisted: true },
          },
        },
        accounts,
      },
      refreshAfter: '90 days',
      service: { timeout: '1.5s' },
      schedule: [{ cron: '@daily', sources: ['contacts'], budget: 'unlimited' }],
    })
    expect(parseConfig(config, null).schedule[0]?.sources).toEqual(['contacts'])
  })

  test('a service is described as it is checked', () => {
    type Described = Paths<ServiceDefinition>
    type Accepted = Paths<z.input<typeof serviceSchema>>
    expectTypeOf<Exclude<Accepted, Described>>().toBeNever()
    expectTypeOf<Exclude<Described, Accepted>>().toBeNever()
  })

  test('completes the fields of each kind', () => {
    type Shorthand<Kind extends 'person' | 'company'> = Extract<OutputConfig<Kind>, string>
    expectTypeOf<'company.name'>().toExtend<Shorthand<'person'>>()
    expectTypeOf<'industry'>().not.toExtend<Shorthand<'person'>>()
    expectTypeOf<'industry'>().toExtend<Shorthand<'company'>>()
    expectTypeOf<'company.name'>().not.toExtend<Shorthand<'company'>>()
    expectTypeOf<string>().not.toExtend<Shorthand<'person'>>()
  })

  test('rejects a field of the other kind, in both forms', () => {
    // @ts-expect-error -- `industry` is a company's
    const short = defineConfig({ sources: { contacts: { ...contacts, outputs: { a: 'industry' } } } })
    expect(wrong(short)).toEqual(['sources.contacts.outputs.a'])
    // @ts-expect-error -- `industry` is a company's
    const long = person({ outputs: { a: { field: 'industry', policy: 'always' } } })
    expect(wrong(long)).toEqual(['sources.contacts.outputs.a.field'])
    // @ts-expect-error -- `title` is a person's
    const title = defineConfig({ sources: { accounts: { ...accounts, outputs: { a: 'title' } } } })
    expect(wrong(title)).toEqual(['sources.accounts.outputs.a'])
    // @ts-expect-error -- an object, not a field
    const whole = person({ outputs: { a: 'company' } })
    expect(wrong(whole)).toEqual(['sources.contacts.outputs.a'])
  })

  test('rejects the inputs of the other kind, and half of a pair', () => {
    // @ts-expect-error -- a person is not looked up by domain
    const domain = person({ inputs: { email: 't.email', domain: 't.d' } })
    expect(wrong(domain)).toEqual(['sources.contacts.inputs.domain'])
    // @ts-expect-error -- a company is not looked up by email
    const email = company({ inputs: { domain: 't.d', email: 't.email' } })
    expect(wrong(email)).toEqual(['sources.accounts.inputs.email'])
    const name = person({ inputs: { name: 't.name' } })
    expect(wrong(name)).toEqual(['sources.contacts.inputs.company'])
    const employer = person({ inputs: { email: 't.email', company: 't.c' } })
    expect(wrong(employer)).toEqual(['sources.contacts.inputs.name'])
  })

  test('rejects unknown keys, policies and units', () => {
    // @ts-expect-error -- a misspelt key
    const key = defineConfig({ sources: { contacts: { ...contacts, minConfidense: 1 } } })
    expect(wrong(key)).toEqual(['sources.contacts.minConfidense'])
    // @ts-expect-error -- a misspelt policy
    const policy = person({ outputs: { a: { field: 'title', policy: 'blnk' } } })
    expect(wrong(policy)).toEqual(['sources.contacts.outputs.a.policy'])
    // @ts-expect-error -- a duration without its unit
    const unit = defineConfig({ ...good, refreshAfter: '90' })
    expect(wrong(unit)).toEqual(['refreshAfter'])
    // @ts-expect-error -- a secret
    const secret = defineConfig({ ...good, apiKey: 'k' })
    expect(wrong(secret)).toEqual(['apiKey'])
    expectTypeOf<'6 moons'>().not.toExtend<Duration>()
  })

  test('rejects an unknown source in the schedule', () => {
    // @ts-expect-error -- `contact` is not a source
    const config = defineConfig({ ...good, budget: 1, schedule: [{ cron: '@daily', sources: ['contact'] }] })
    expect(wrong(config)).toEqual(['schedule[0].sources[0]'])
  })
})
