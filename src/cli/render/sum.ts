import { formatCount } from '../../util/format.ts'

/** `3 found, 1 failed`: numbers with their words; what is nothing is left out. */
export function sum<Name extends string>(
  numbers: Readonly<Record<Name, number>>,
  words: Partial<Record<NoInfer<Name>, string>>,
  between = ', ',
): string {
  return (Object.entries(words) as [Name, string][])
    .filter(([name]) => numbers[name] > 0)
    .map(([name, word]) => `${formatCount(numbers[name])} ${word}`)
    .join(between)
}
