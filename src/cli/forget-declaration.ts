import { DATABASE, declare } from './declare.ts'
import { text, toggle } from './flag.ts'

export const forgetDeclaration = declare({
  group: 'work',
  summary: 'erases what is stored of a person or a company, and never asks again',
  about:
    'Deletes the record, what was asked, the values before and after, and the copies in deliveries; then searches every ' +
    'table of the schema "fillrate" for what is left. Leaves a hashed tombstone, so that neither a run nor a late ' +
    'delivery brings it back. A person known by two identifiers is given by both. Your own tables are yours: their rows ' +
    'are listed, and nothing in them is changed.',
  flags: {
    email: text('ADDRESS', 'a person, by email address'),
    linkedin: text('URL', 'a person, by profile URL'),
    domain: text('DOMAIN', 'a company; those who work there are erased by their own identifiers'),
    dryRun: toggle('tells what would be erased, and erases nothing'),
  },
  examples: [
    ['fillrate forget --email ada@example.com --dry-run', 'first look, then the same without it'],
    ['fillrate forget --domain acme.example', 'a company'],
  ],
  environment: DATABASE,
})
