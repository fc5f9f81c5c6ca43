import { defineConfig } from 'fillrate'

/** The configuration of docker-compose.yml, for the CRM of crm.sql. */
export default defineConfig({
  sources: {
    accounts: {
      kind: 'company',
      table: 'crm.accounts',
      inputs: { domain: 't.website' },
      outputs: { industry: 'industry', employees: 'employee_count', city: 'location.city' },
    },
    contacts: {
      kind: 'person',
      table: 'crm.contacts',
      joins: 'left join crm.accounts a on a.id = t.account_id',
      inputs: { email: 't.email', name: "concat_ws(' ', t.first_name, t.last_name)", company: 'a.name' },
      minConfidence: 0.5,
      outputs: {
        title: 'title',
        phone: { field: 'phone', minConfidence: 0.7 },
        seniority: 'seniority',
        department: 'department',
      },
      touch: { enriched_at: 'now()' },
    },
  },
  schedule: [{ cron: '0 2 * * *', timezone: 'Europe/Oslo' }],
  budget: 10_000,
})
