import { Exit, createParser, defineCommand } from '../command.ts'
import { useDatabase } from '../settings.ts'
import { parseText } from '../options.ts'
import { renderInitEnd, renderProposal } from '../views/init.ts'

export const initCommand = defineCommand(
  createParser('init')
    .summary('drafts a configuration from the database')
    .description(
      'Reads the catalogue and some rows of each table, and writes one source for each table of people or companies. What may say ' +
        'who must not be looked up, and is not named so, is a commented line with its count. No run touches a source until a ' +
        'person has read it and taken out its line `reviewed: false`. Writes nothing to the database.',
    )
    .argument('[TABLE...]', 'tables or schemas to draft sources of, such as crm.contacts; default: all')
    .option('--out <FILE>', 'the file to write; default: fillrate.config.ts', parseText, null)
    .option('--force', 'overwrite the file if it exists', false),
  {
    group: 'setup',
    examples: [
      ['fillrate init', ''],
      ['fillrate init crm.contacts crm.accounts', 'two tables'],
      ['fillrate init --out new.config.ts', 'a second file, to compare with the current configuration'],
    ],

    async handler(call) {
      const { proposeSources } = await import('../../init/propose.ts')
      const { resolveConfigTarget, writeConfig } = await import('../../init/target.ts')
      const { renderConfig } = await import('../../init/config-text.ts')
      const { flags, args, cwd, stdout } = call
      const target = resolveConfigTarget({ cwd, out: flags.out, force: flags.force })
      const db = await useDatabase(call)
      const proposal = await proposeSources(db, args[0])
      const hasSources = proposal.sources.length > 0
      if (hasSources) await writeConfig(target, renderConfig(proposal))
      return {
        json: { written: hasSources ? target.path : null, ...proposal },
        text: () => [...renderProposal(proposal, stdout), ...renderInitEnd(proposal, target, stdout)],
        exit: hasSources ? Exit.done : Exit.failed,
      }
    },
  },
)
