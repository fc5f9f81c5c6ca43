import fc from 'fast-check'
import { WRITE_POLICIES, type WritePolicy } from '../../src/domain/mapping.ts'
import { POLICY_MODEL } from './policy-model.ts'

/* Random configurations of several services. Each world is a source of its own, with rows that users change between the passes. */

export const SERVICE_NAMES = ['a', 'b', 'c'] as const
export type ServiceName = (typeof SERVICE_NAMES)[number]
export const COLUMNS = ['title', 'phone', 'seniority'] as const
export type Column = (typeof COLUMNS)[number]

/** The second service takes no profile. */
export const takesProfile = (service: ServiceName): boolean => service !== 'b'

interface OutputSettings {
  readonly field: Column
  readonly policy: WritePolicy
  readonly minConfidence: number
}

interface TurnSettings {
  readonly name: ServiceName
  readonly when: 'miss' | 'blank'
  readonly minConfidence: number
}

interface RowSettings {
  readonly hasEmail: boolean
  readonly hasProfile: boolean
  readonly typed: readonly Column[]
}

/** With another address a row is another person, or the same one whose cells stay. */
type Edit = 'none' | 'type' | 'blank' | 'blank all' | 'new person' | 'new address'

export interface WorldSettings {
  readonly turns: readonly TurnSettings[]
  readonly cascade: boolean
  /** Of each column, by service; null: it does not fill it. */
  readonly outputs: Readonly<Record<Column, Readonly<Record<ServiceName, OutputSettings | null>>>>
  readonly rows: readonly RowSettings[]
  /** Before each pass, for each row. */
  readonly edits: readonly (readonly { readonly edit: Edit; readonly column: Column }[])[]
}

interface Ages {
  readonly refresh: number
  readonly retry: number
}

export interface ModelCase {
  readonly seed: number
  readonly ages: Readonly<Record<ServiceName, Ages>>
  /** Two of the services take jobs. */
  readonly isBulk: boolean
  /** How many days pass before each pass. */
  readonly days: readonly number[]
  /** After how many statements and calls the process of each pass is killed; null: it is not. */
  readonly kills: readonly (number | null)[]
  readonly worlds: readonly WorldSettings[]
}

const PASSES = 4
export const ROWS = 5

const output = fc.record({
  field: fc.constantFrom(...COLUMNS),
  policy: fc.constantFrom(
    ...WRITE_POLICIES.flatMap((policy) => Array.from({ length: POLICY_MODEL[policy].weight }, () => policy)),
  ),
  minConfidence: fc.constantFrom(0, 0, 0, 0.5),
})

const outputsOf = fc.record({ a: output, b: output, c: output }).chain((all) =>
  fc
    .record({ a: fc.boolean(), b: fc.boolean(), c: fc.boolean(), isPlain: fc.boolean() })
    .map(({ isPlain, ...named }) =>
      isPlain
        ? { a: all.a, b: all.a, c: all.a }
        : {
            a: named.a ? all.a : null,
            b: named.b ? all.b : null,
            c: named.c || !(named.a || named.b) ? all.c : null,
          },
    ),
)

const world: fc.Arbitrary<WorldSettings> = fc
  .record({
    turns: fc.shuffledSubarray([...SERVICE_NAMES], { minLength: 1 }).chain((names) =>
      fc.tuple(
        ...names.map((name) =>
          fc.record({
            name: fc.constant(name),
            when: fc.constantFrom<TurnSettings['when'][]>('miss', 'blank'),
            minConfidence: fc.constantFrom(0, 0, 0.5, 0.8),
          }),
        ),
      ),
    ),
    cascade: fc.boolean(),
    outputs: fc.record({ title: outputsOf, phone: outputsOf, seniority: outputsOf }),
    rows: fc.array(
      fc.record({
        hasEmail: fc.constantFrom(true, true, true, false),
        hasProfile: fc.boolean(),
        typed: fc.subarray([...COLUMNS], { maxLength: 2 }),
      }),
      { minLength: ROWS, maxLength: ROWS },
    ),
    edits: fc.array(
      fc.array(
        fc.record({
          edit: fc.constantFrom<Edit[]>(
            'none',
            'none',
            'type',
            'blank',
            'blank all',
            'new person',
            'new address',
          ),
          column: fc.constantFrom(...COLUMNS),
        }),
        { minLength: ROWS, maxLength: ROWS },
      ),
      { minLength: PASSES, maxLength: PASSES },
    ),
  })
  .filter(
    ({ turns, outputs }) =>
      // A service that fills nothing is refused, and so is an input that no service takes.
      turns.every(({ name }) => COLUMNS.some((column) => outputs[column][name] !== null)) &&
      turns.some(({ name }) => takesProfile(name)),
  )

const age = fc.record({ refresh: fc.constantFrom(30, 90, 180), retry: fc.constantFrom(30, 90, 180) })

export const modelCase = (worlds: number): fc.Arbitrary<ModelCase> =>
  fc.record({
    seed: fc.nat(1_000_000),
    ages: fc.record({ a: age, b: age, c: age }),
    isBulk: fc.boolean(),
    days: fc.array(fc.constantFrom(0, 40, 100, 200), { minLength: PASSES, maxLength: PASSES }),
    kills: fc.array(fc.option(fc.integer({ min: 150, max: 1_500 }), { freq: 2 }), {
      minLength: PASSES,
      maxLength: PASSES,
    }),
    worlds: fc.array(world, { minLength: 1, maxLength: worlds }),
  })
