import { defineConfig } from 'fillrate'

export default defineConfig({
  sources: {
    contacts: {
      kind: 'person',
      table: 'crm.contacts',
      where: 't.deleted_at is null and not t.do_not_call',
      inputs: {
        email: 't.email',
        linkedin_url: 't.linkedin',
        name: "concat_ws(' ', t.first_name, t.last_name)",
        // One of the accounts where the contact works now: a join would give one row for each.
        company: `(select a.name from crm.account_contacts m join crm.accounts a on a.id = m.account_id
                    where m.contact_id = t.id and m.ended_at is null and a.deleted_at is null
                    order by m.id limit 1)`,
      },
      outputs: {
        title: { field: 'title', sql: 'left($value, 64)' },
        department: 'department',
        phone: { field: 'phone', matches: /^\+\d{8,15}$/ },
      },
      touch: { updated_at: 'now()' },
    },

    accounts: {
      kind: 'company',
      table: 'crm.accounts',
      where: 't.deleted_at is null',
      inputs: { domain: 't.website' },
      outputs: {
        industry: 'industry',
        employees: 'employee_count',
        annual_revenue: 'revenue',
        founded_year: 'founded_year',
        linkedin_url: 'social.linkedin',
        technologies: 'technologies',
      },
      touch: { updated_at: 'now()' },
    },

    // The addresses of accounts, looked up by the account's website: they share its lookup, so they cost no further call.
    account_addresses: {
      kind: 'company',
      table: 'crm.addresses',
      where: "t.owner_type = 'Account' and t.kind = 'office' and t.deleted_at is null",
      inputs: {
        domain: '(select a.website from crm.accounts a where a.id = t.owner_id and a.deleted_at is null)',
      },
      outputs: {
        // All or nothing, so that a typed city never stands beside the country of another.
        city: { field: 'location.city', group: 'place' },
        state: { field: 'location.state', group: 'place' },
        country: { field: 'location.country', group: 'place' },
      },
    },
  },
  budget: 1_000,
})
