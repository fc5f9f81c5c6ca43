import { Exit, createParser, defineCommand } from '../command.ts'
import { useDatabase } from '../settings.ts'
import type { Proposal, ProposedSource } from '../../init/proposal.ts'
import { pluralize, sanitize } from '../../util/text.ts'
import { wrapText, type Output } from '../terminal.ts'
import { renderFields, renderText } from '../views/layout.ts'

export const initCommand = defineCommand(
  createParser('init')
    .summary('drafts a configuration from the database')
    .description(
      'Reads the catalogue and some rows of each table, and writes one source for each table of people or ' +
        'companies. What may say who must not be looked up, and is not named so, is a commented line with its ' +
        'count. No run touches a source until a person has taken out its line `reviewed: false`. Writes nothing to ' +
        'the database.',
    )
    .argument('[TABLE...]', 'tables or schemas to draft sources of, such as crm.contacts; default: all'),
  {
    group: 'setup',
    examples: [
      ['fillrate init', ''],
      ['fillrate init crm.contacts crm.accounts', 'two tables'],
    ],

    async handler(call) {
      const { proposeSources } = await import('../../init/propose.ts')
      const { refuseConfigured, writeDraft } = await import('../../init/target.ts')
      const { renderConfig } = await import('../../init/config-text.ts')
      const { args, cwd, stdout } = call
      refuseConfigured(cwd)
      const db = await useDatabase(call)
      const proposal = await proposeSources(db, args[0])
      const written = proposal.sources.length > 0 ? await writeDraft(cwd, renderConfig(proposal)) : null
      return {
        json: { written, ...proposal },
        text: () => [...renderProposal(proposal, stdout), ...renderInitEnd(proposal, stdout)],
        exit: written === null ? Exit.failed : Exit.done,
      }
    },
  },
)

/** The proposed sources, and what the role may not read or write. */
function renderProposal({ tables, sources, left }: Proposal, output: Output): string[] {
  const grants = new Set([...sources, ...left].flatMap(({ grants }) => grants))
  const render = (title: string, lines: readonly string[]): string[] =>
    lines.length === 0
      ? []
      : ['', output.paint('quiet', title), ...lines.flatMap((line) => renderText(output, sanitize(line)))]
  return [
    `Read ${pluralize(tables, 'table')}: ${pluralize(sources.length, 'source')} proposed.`,
    ...render('Sources', sources.map(describeSource)),
    ...render(
      'Left',
      left.map(({ table, reason }) => `${table}: ${reason}`),
    ),
    ...(grants.size === 0
      ? []
      : ['', 'This role lacks rights. Run what is needed as the owner, then propose again:']),
    // Whole lines, to be pasted.
    ...[...grants].map((grant) => `  ${sanitize(grant)}`),
  ]
}

function describeSource({ table, kind, inputs, outputs, conditions }: ProposedSource): string {
  const active = conditions.filter(({ state }) => state === 'active').length
  const by = inputs.map(({ input }) => input).join(', ')
  return (
    `${table}: ${kind === 'person' ? 'people' : 'companies'} by ${by}; fills ${pluralize(outputs.length, 'column')}; ` +
    `${pluralize(active, 'condition')} in force, ${conditions.length - active} to choose from`
  )
}

/** What follows `init`, in the order of the documentation: the check needs no schema, and finds what would stop a run. */
export const FIRST_STEPS = [
  ['check', 'verifies configuration, database and API access'],
  ['migrate', 'once: creates the schema "fillrate"'],
  ['plan', 'estimates lookups and cost, without a call'],
] as const

/** What was written and follows; or why nothing was. */
function renderInitEnd(proposal: Proposal, output: Output): string[] {
  const wrap = (text: string): string[] => ['', ...wrapText(text, output.textColumns)]
  if (proposal.sources.length === 0)
    return wrap(
      proposal.tables === 0
        ? 'Nothing was written. This role may read no table of this database: look at DATABASE_URL, or grant it the tables.'
        : 'Nothing was written. No table that could be read holds email addresses, profiles or domains in at least half of its sampled rows, and columns named as fields. To write the configuration by hand, begin with fillrate.config.example.ts of the package.',
    )
  const commands = FIRST_STEPS.map(([verb, why]) => [`fillrate ${verb}`, why] as const)
  return [
    ...wrap(
      `${output.paint('good', '✓')} Wrote fillrate.config.ts. Read it: choose whom each source must not look up, then take out its line \`reviewed: false\`. Until then every run leaves it out.`,
    ),
    'Next:',
    ...renderFields(output, commands, 'type'),
  ]
}
