/** Different inputs in a row that prove that what they get, all would get: before any was answered, and after. */
export const AT_FIRST = 3
const LATER = 10

/**
 * The evidence that an answer is not about its input but about all: a rejected key, a wrong path, a description that does not fit. Inputs
 * are any values that are equal for equal inputs.
 */
export class InputsInARow<Input = string> {
  hasAnswered = false
  #inputs = new Set<Input>()

  /** Whether enough different inputs have got it since one was answered. */
  get isProof(): boolean {
    return this.#inputs.size >= (this.hasAnswered ? LATER : AT_FIRST)
  }

  has(input: Input): boolean {
    return this.#inputs.has(input)
  }

  add(input: Input): void {
    this.#inputs.add(input)
  }

  answer(): void {
    this.hasAnswered = true
    if (this.#inputs.size > 0) this.#inputs = new Set()
  }
}
