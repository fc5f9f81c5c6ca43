/** Why the demo can't go on, and what to do about it; fit for a terminal as it is. */
export class DemoProblem extends Error {
  override readonly name = 'DemoProblem'
}
