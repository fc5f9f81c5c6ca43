import { defineConfig } from 'fillrate'

export default defineConfig({
  sources: {
    contacts: {
      kind: 'person',
      table: 'contact',
      joins: 'left join account a on a.id = t.account_id and not a.deleted',
      // Whoever must not be contacted is left out, by their own flag or by that of their address.
      where: `not t.deleted and not t.do_not_call
              and not exists (select from entity_email_address l join email_address e on e.id = l.email_address_id
                               where l.entity_id = t.id and l."primary" and not l.deleted and e.opt_out)`,
      inputs: {
        // The primary address, else the oldest of the others.
        email: `(select e.address from entity_email_address l join email_address e on e.id = l.email_address_id
                  where l.entity_id = t.id and l.entity_type = 'Contact'
                    and not l.deleted and not e.deleted and not e.invalid
                  order by l."primary" desc, l.id limit 1)`,
        linkedin_url: 't.linkedin_url',
        name: "concat_ws(' ', t.first_name, t.last_name)",
        company: 'a.name',
      },
      minConfidence: 0.5,
      outputs: {
        title: 'title',
        department: 'department',
        seniority: 'seniority',
        phone_number: { field: 'phone', policy: 'tracked' },
      },
      touch: { modified_at: "now() at time zone 'UTC'" },
    },

    accounts: {
      kind: 'company',
      table: 'account',
      where: 'not t.deleted',
      inputs: { domain: 't.website' },
      outputs: {
        industry: 'industry',
        employees: 'employee_count',
        founded_year: 'founded_year',
        annual_revenue: 'revenue',
        billing_address_city: { field: 'location.city', group: 'address' },
        billing_address_state: { field: 'location.state', group: 'address' },
        billing_address_country: { field: 'location.country', group: 'address' },
      },
      touch: { modified_at: "now() at time zone 'UTC'" },
    },
  },
  budget: 1_000,
})
