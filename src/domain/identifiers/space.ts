/**
 * What counts as nothing: all white space (no-break and full-width spaces too) and the marks of no width
 * that copying out of a web page or a spreadsheet leaves behind. The zero-width joiners are among them only
 * at the ends of a value: inside one, scripts such as Persian need them.
 */
const blank = /[\s\p{Cc}\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/u

/** The text without blank characters at its ends; `''` when there is nothing else. Linear in the length. */
export function trim(text: string): string {
  // Two indices, and not `/[…]+$/`: that pattern takes quadratic time on a long run of spaces inside a value.
  let start = 0
  let end = text.length
  while (start < end && blank.test(text.charAt(start))) start++
  while (end > start && blank.test(text.charAt(end - 1))) end--
  return text.slice(start, end)
}

/** Trimmed, with every run of white space, control characters and halves of surrogate pairs made one plain space. */
export function squash(text: string): string {
  return trim(text.replace(/[\s\p{Cc}\p{Cs}\u200b\u2060]+/gu, ' '))
}
