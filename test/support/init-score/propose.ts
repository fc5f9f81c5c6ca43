import { parseConfig } from '../../../src/config/parse.ts'
import type { SourceMapping } from '../../../src/domain/mapping.ts'
import { toConfigObject } from '../../../src/init/config-object.ts'
import { proposeForTables } from '../../../src/init/propose.ts'
import { verifyProposedSource } from '../../../src/init/verify.ts'
import type { TestDatabase } from '../database.ts'

/** The sources that `init` would write into its file for this database. */
export async function proposeMappings({ db }: TestDatabase): Promise<SourceMapping[]> {
  const { sources } = await proposeForTables(db, [], () => {})
  const verified = []
  for (const source of sources) verified.push(await verifyProposedSource(db, source))
  const accepted = verified.flatMap((one) => ('reason' in one ? [] : [one.source]))
  return accepted.length === 0 ? [] : Object.values(parseConfig(toConfigObject(accepted), null).sources)
}
