/**
 * A configuration with everything in it. Copy it to fillrate.config.ts and keep what you need: a source with
 * `kind`, `table`, `inputs` and `outputs` is enough. `fillrate init` writes one from your own database, and
 * `fillrate check` holds it against the database and the service.
 *
 * Addresses and secrets are not in here: they come from the environment, see .env.example.
 */
import { defineConfig } from 'fillrate'

export default defineConfig({
  sources: {
    // A source says which rows of which table, what identifies them, and which columns may be filled.
    contacts: {
      kind: 'person',

      // In every expression below the table is `t`.
      table: 'crm.contacts',
      joins: 'left join crm.accounts a on a.id = t.account_id',

      // What identifies a row. Without it: the primary key. Several columns: ['tenant_id', 'id'].
      key: 'id',

      // Which rows. Without it: all.
      where: 't.deleted_at is null',

      // `fillrate start` enriches its rows as they change; `fillrate follow install contacts` puts the triggers there.
      follow: true,

      // A time that moves when a row changes. With it a pass costs what has changed, not what there is.
      changedAt: 't.updated_at',

      // SQL expressions. The first usable of email, profile URL, name and company is asked.
      inputs: {
        email: 't.email',
        linkedin_url: 't.linkedin',
        name: "concat_ws(' ', t.first_name, t.last_name)",
        company: 'a.name',
      },

      // Where the first identifier finds nothing, ask with the next. Each is a call of its own.
      cascade: false,

      // A record below this confidence, 0 to 1, is not used.
      minConfidence: 0.7,

      // The column on the left, the field of the record on the right.
      outputs: {
        // Alone, a field is written only where the column is blank.
        title: 'title',

        // `tracked` also replaces what Fillrate wrote itself, if nobody has changed it since.
        phone: { field: 'phone', policy: 'tracked', minConfidence: 0.9, matches: /^\+\d{8,15}$/ },

        // `always` replaces anything. `map` turns values into yours, and skips those that are not in it.
        seniority: {
          field: 'seniority',
          policy: 'always',
          map: { c_suite: 'Executive', vp: 'VP', director: 'Director' },
        },

        // A key inside a jsonb column. Its parents are made where they are missing.
        'attributes.department': 'department',

        // A text that is too long for its column is skipped, or cut.
        linkedin: { field: 'linkedin', tooLong: 'skip' },
        headline: { field: 'title', tooLong: 'truncate' },

        // An expression over $value (text), $json (jsonb) and $confidence makes another value of it.
        employer_id: { field: 'company.domain', sql: '(select id from crm.accounts where domain = $value)' },

        // A group is written whole or not at all.
        phone_country: { field: 'phone', sql: 'substr($value, 2, 2)', group: 'split phone' },
        phone_number: { field: 'phone', sql: 'substr($value, 4)', group: 'split phone' },

        // A field that the service sends but its interface does not list.
        twitter: { field: 'social.twitter', unlisted: true },
      },

      // Set when an output is written, and only then.
      touch: { updated_at: 'now()', enriched_at: 'now()', confidence: '$confidence' },
    },

    accounts: {
      kind: 'company',
      table: 'crm.accounts',

      // A domain or a URL. Free-mail and social hosts are left out.
      inputs: { domain: 't.website' },

      outputs: {
        industry: 'industry',
        employees: 'employee_count',
        city: 'location.city',
        // An array goes into a text[] or jsonb column as it is, and into a text column as JSON.
        technologies: { field: 'technologies', as: 'json' },
      },
    },
  },

  service: {
    // Calls under way at once.
    concurrency: 32,
    // For one call.
    timeout: '30s',
    // The share of the quota, 0 to 0.9, that is kept for what is urgent.
    reserve: 0.1,
  },

  bulk: {
    // Lookups by email that must wait before they go in bulk.
    minimum: 50,
    // After this long without a delivery a job is given up, and its members are asked one by one.
    deadline: '6h',
  },

  // After this long a found record is asked for again, and a lookup that found nothing.
  refreshAfter: '90d',
  retryNotFoundAfter: '30d',

  // Tries of one lookup before it is failed.
  attempts: 5,

  // Lookups that one run may ask: no run spends without a budget. 'unlimited' takes the bound away.
  budget: 10_000,

  // For `fillrate start`.
  schedule: [
    { cron: '0 2 * * *', timezone: 'Europe/Oslo', sources: ['contacts'] },
    {
      cron: '0 4 * * SUN',
      timezone: 'Europe/Oslo',
      sources: ['accounts'],
      budget: 2_000,
      limit: 5_000,
      catchUp: false,
    },
  ],

  // What is older is deleted by `fillrate start`, a little at a time. Records and changes are kept without a word of it:
  // a record that is gone is asked again when it is wanted, and a change that is gone can not be undone.
  keepRecords: '2y',
  keepDeliveries: '30d',
  keepChanges: '1y',

  // Whom to tell. Without `url` it is FILLRATE_NOTIFY_URL, without `on` everything is told.
  notify: [
    { url: 'https://ops.example.com/fillrate' },
    { form: 'slack', on: ['failed', 'budget_reached', 'jobs_overdue'] },
  ],
})
