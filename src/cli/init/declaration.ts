import { declare } from '../declare.ts'
import { text, toggle } from '../flag.ts'

export const initDeclaration = declare({
  group: 'first',
  summary: 'reads the database, proposes a configuration and writes it',
  about:
    'Looks for tables and columns that hold people and companies, by their names, their types and a few rows of each, ' +
    'and proposes what to ask by and what to fill. Shows how much each column holds now. On a terminal it asks, source ' +
    'by source. Writes one file, never over another, and nothing to the database.',
  words: {
    placeholder: '[TABLE…]',
    help: 'only these tables, such as crm.contacts; default: all that look right',
    most: Number.POSITIVE_INFINITY,
  },
  flags: {
    yes: toggle('asks nothing, takes all', { short: 'y' }),
    out: text('FILE', 'where to write it; default: fillrate.config.ts; .json is possible too'),
    force: toggle('writes over the file, if it is there'),
  },
  examples: [
    ['fillrate init', ''],
    ['fillrate init crm.contacts crm.accounts --yes', 'only these two, without a question'],
    ['fillrate init --out new.config.ts', 'beside the configuration that is there, to compare'],
  ],
  exits: [0, 1, 2, 130],
  environment: ['DATABASE_URL'],
})
