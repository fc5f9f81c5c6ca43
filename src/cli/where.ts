import { ConfigProblems } from '../config/problems.ts'

/** SQLSTATE class 42 is what Postgres can't read or find; 22 and 0A are what it can't compute or allow. */
const WRONG_SQL = /^(?:42|22|0A)/

/**
 * Does `act`; where Postgres objects to SQL while there is a `--where`, that is what it objects to: everything else in
 * the statement has been tried when the sources were opened.
 */
export async function blamingWhere<Result>(
  where: string | null,
  act: () => Promise<Result>,
): Promise<Result> {
  try {
    return await act()
  } catch (error) {
    if (
      where === null ||
      !(error instanceof Error) ||
      !WRONG_SQL.test((error as { code?: string }).code ?? '')
    )
      throw error
    const problem = {
      place: '--where',
      found: `${where}\n${error.message}`,
      expected: 'an SQL condition over the source, whose table is t',
      todo: 'Put it in quotes, so that the shell leaves it whole: --where "t.country = \'NO\'".',
    }
    throw new ConfigProblems('the command', [problem], { cause: error })
  }
}
