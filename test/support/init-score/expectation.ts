import type { InputName, SourceKind } from '../../../src/domain/mapping.ts'

/** What a careful engineer would map in one schema: what init's proposal is held against. */
export interface SchemaExpectation {
  readonly title: string
  /** What makes the schema difficult, for the table in docs/init.md. */
  readonly holds: string
  readonly sources: readonly ExpectedSource[]
}

/** One mapping. Every SQL expression is over the table, `t`. */
export interface ExpectedSource {
  readonly table: string
  readonly kind: SourceKind
  readonly joins?: string
  readonly inputs: Readonly<Partial<Record<InputName, string>>>
  /** Expressions that identify the same rows as correctly, perhaps fewer of them. */
  readonly alternatives?: Readonly<Partial<Record<InputName, readonly string[]>>>
  readonly outputs: Readonly<Record<string, ExpectedOutput>>
  /** Outputs that are right and not expected. */
  readonly otherOutputs?: Readonly<Record<string, ExpectedOutput>>
  /** Conditions of rows that must be left out, by their name. */
  readonly excluded: Readonly<Record<string, string>>
  /** A condition of rows that may be left out. */
  readonly mayExclude?: string
  /** The column that holds the time of the last enrichment. */
  readonly freshness?: string
  /** A proposal without this source lacks nothing. */
  readonly isOptional?: boolean
}

/** The record's field, with how to see in a cell that the right value was written. */
export type ExpectedOutput =
  | string
  | {
      readonly field: string
      /** An expression that shows the cell's value as the record has it: a country's name in place of its key. */
      readonly shown?: string
      /** Labels of the column that stand for a value of the record. */
      readonly labels?: Readonly<Record<string, readonly string[]>>
    }

export const fieldOf = (output: ExpectedOutput): string =>
  typeof output === 'string' ? output : output.field

/** Every output that is right, expected or not. */
export const rightOutputs = (source: ExpectedSource): Readonly<Record<string, ExpectedOutput>> => ({
  ...source.otherOutputs,
  ...source.outputs,
})
