import { z } from 'zod'

// Each promised report is described in this folder once: for its type, for the JSON Schema that ships, for docs/json.md and for
// the test that holds what commands print to it. The program imports types alone from here: nothing of it is loaded to print.

/** What a report that is described by a shape is like in the program: it is not changed. */
export type ReportOf<Shape extends z.ZodType> = Frozen<z.output<Shape>>

type Frozen<Value> = Value extends Date
  ? Value
  : Value extends readonly (infer Item)[]
    ? readonly Frozen<Item>[]
    : Value extends object
      ? { readonly [Key in keyof Value]: Frozen<Value[Key]> }
      : Value

export const mapKeys = <Key extends string, Value>(keys: readonly Key[], make: (key: Key) => Value) =>
  Object.fromEntries(keys.map((key) => [key, make(key)])) as Record<Key, Value>

export const { object } = z
const count = (meaning: string) => z.int().describe(meaning)
const list = <Item extends z.ZodType>(meaning: string, item: Item) => z.array(item).describe(meaning)

/** What a field is, and means. */
export const is = {
  count,
  number: (meaning: string) => z.number().describe(meaning),
  boolean: (meaning: string) => z.boolean().describe(meaning),
  anything: (meaning: string) => z.unknown().describe(meaning),
  /** Texts of a list that may become longer are of their type in the program, and any text in the schema. */
  text: <Text extends string = string>(meaning: string) =>
    z.string().describe(meaning) as unknown as z.ZodType<Text>,
  /** A moment: a date in the program, and ISO 8601 in JSON. */
  time: (meaning: string) =>
    z.iso
      .datetime()
      .transform((iso) => new Date(iso))
      .describe(meaning),
  /** The same where the program has the text. */
  isoTime: (meaning: string) => z.iso.datetime().describe(meaning),
  list,
  texts: (meaning: string) => list(meaning, z.string()),
  byName: <Value extends z.ZodType>(meaning: string, value: Value) =>
    z.record(z.string(), value).describe(meaning),
  /** Null where the value is unknown or does not apply: the meaning says which. */
  orNull: <Value extends z.ZodType>(value: Value) => value.nullable().describe(value.description ?? ''),
  /** Not always there: the meaning says when. */
  orAbsent: z.exactOptional,
  /** A count by each name. */
  counts: <Name extends string>(meaning: string, meanings: Readonly<Record<Name, string>>) =>
    object(mapKeys(Object.keys(meanings) as Name[], (name) => count(meanings[name]))).describe(meaning),
}

/** A sum of money. */
export type Money = ReportOf<typeof money>
export const money = object({
  amount: is.number('in units of the currency'),
  currency: is.text('ISO 4217: `EUR`'),
}).meta({ id: 'money' })

/** The requests to all endpoints and their cost. `credits` only where a lookup may cost another number than one. */
export type SpendAmount = ReportOf<typeof spend>
export const spend = object({
  calls: is.count('calls answered, or in doubt'),
  lookups: is.count('lookups billed: answered by the service, or accepted in a job'),
  in_doubt: is.count('lookups beside these that may be billed, because the answer was lost'),
  credits: is.orAbsent(is.number('credits billed; only where a lookup does not cost one')),
  credits_in_doubt: is.orAbsent(is.number('the most credits that may be billed beside these')),
  cost: is.orNull(
    money.describe('of `lookups`, or of `credits`, at the price configured now; null without one'),
  ),
}).meta({ id: 'spend' })
