/**
 * Every field of the configuration. Copy this file to fillrate.config.ts and keep what you need: a source with `kind`,
 * `table`, `inputs` and `outputs` is enough. `fillrate init` writes a configuration from your own database, and
 * `fillrate check` validates it against the database and the service.
 *
 * URLs and secrets come from the environment, see .env.example.
 */
import { defineConfig } from 'fillrate'

export default defineConfig({
  sources: {
    // A source: which rows of which table, what identifies them, and which columns may be filled.
    contacts: {
      kind: 'person',

      // `t` in every expression below.
      table: 'crm.contacts',
      joins: 'left join crm.accounts a on a.id = t.account_id',

      // What identifies a row. Default: the primary key. Several columns: ['tenant_id', 'id'].
      key: 'id',

      // Which rows: those that meet every condition. Default: all.
      where: ['t.deleted_at is null'],

      // Live sync: `fillrate start` enriches rows as they change. `fillrate follow install contacts` installs the triggers.
      follow: true,

      // When a row was enriched last, by whatever did it. While this is younger than `refreshAfter`, the row is not picked.
      // Each write sets it, so it does not belong in `where`.
      freshness: { column: 'enriched_at' },

      // SQL expressions. The first usable one of email, profile URL, name and company is looked up.
      inputs: {
        email: 't.email',
        linkedin_url: 't.linkedin',
        name: "concat_ws(' ', t.first_name, t.last_name)",
        company: 'a.name',
      },

      // If the first identifier has no match, try the next one. Each is a call of its own.
      cascade: false,

      // The most rows to write in an hour, for a table whose writes are uploaded elsewhere, by Heroku Connect for instance.
      // writes: { perHour: 5_000 },

      // A record below this confidence, 0 to 1, is not used.
      minConfidence: 0.7,

      // column: field of the record. With several services, the field of each: { acme: 'phone', pdl: 'mobile_phone' }.
      outputs: {
        // A field by itself is written only where the column is blank.
        title: 'title',

        // `tracked` also replaces a value that Fillrate wrote and that is unchanged since.
        phone: { field: 'phone', policy: 'tracked', minConfidence: 0.9, matches: /^\+\d{8,15}$/ },

        // `always` replaces any value. `map` converts values, and skips unmapped ones.
        seniority: {
          field: 'seniority',
          policy: 'always',
          map: { c_suite: 'Executive', vp: 'VP', director: 'Director' },
        },

        // A key inside a jsonb column. Missing parents are created.
        'attributes.department': 'department',

        // A text that is too long for its column is skipped, unless an expression cuts it.
        linkedin: 'linkedin',
        headline: { field: 'title', sql: 'left($value, 40)' },

        // An expression over $value (text), $json (jsonb) and $confidence computes another value.
        employer_id: { field: 'company.domain', sql: '(select id from crm.accounts where domain = $value)' },

        // A field that the service sends but does not document.
        twitter: { field: 'social.twitter', unlisted: true },
      },

      // Set only when an output is written.
      touch: { updated_at: 'now()', confidence: '$confidence' },
    },

    accounts: {
      kind: 'company',
      table: 'crm.accounts',

      // A domain or a URL. Free-mail and social hosts are rejected.
      inputs: { domain: 't.website' },

      outputs: {
        industry: 'industry',
        employees: 'employee_count',
        // A group is written as a whole or not at all: a typed city never stands beside another country.
        city: { field: 'location.city', group: 'place' },
        country: { field: 'location.country', group: 'place' },
        // An array is written to a text[] or jsonb column unchanged. An expression makes it a text.
        technologies: { field: 'technologies', sql: '$json::text' },
      },
    },
  },

  // In place of `service`, `bulk` and `price`, `services` names several that are looked up in order: docs/services.md.
  service: {
    // Concurrent calls.
    concurrency: 32,
    // Timeout of one call.
    timeout: '30s',
    // Share of the rate limit, 0 to 0.9, reserved for live sync.
    reserve: 0.1,
    // What the rate limit belongs to, if its API key changes often. Default: the key.
    account: 'acme-production',
  },

  bulk: {
    // Number of waiting email lookups from which they go in bulk.
    minimum: 50,
    // After this time without a delivery a job expires, and its members are requested one by one.
    deadline: '6h',
  },

  // When a found record is refreshed, and when a lookup without a match is repeated.
  refreshAfter: '90d',
  retryNotFoundAfter: '30d',

  // Attempts per lookup before it fails.
  attempts: 5,

  // Lookups per run. No run spends without a budget; 'unlimited' removes the limit.
  budget: 10_000,

  // What a lookup costs, so that plans, reports and the dashboard show money.
  price: { currency: 'EUR', lookup: { person: 0.05, company: 0.02 } },

  // The budget of live sync, in lookups a day (UTC).
  liveSync: { budget: 5_000 },

  // Scheduled runs of `fillrate start`.
  schedule: [
    { cron: '0 2 * * *', timezone: 'Europe/Oslo', sources: ['contacts'] },
    { cron: '0 4 * * SUN', timezone: 'Europe/Oslo', sources: ['accounts'], budget: 2_000 },
  ],

  // Retention: `fillrate start` deletes older data in small batches. Records and changes are kept by default: a deleted
  // record must be looked up again, and a deleted change cannot be undone.
  keepRecords: '2y',
  keepDeliveries: '30d',
  keepChanges: '1y',

  // Notifications. Default `url`: FILLRATE_NOTIFY_URL. Default `on`: errors.
  notify: [{ url: 'https://ops.example.com/fillrate' }, { form: 'slack', on: ['error', 'warning'] }],
})
