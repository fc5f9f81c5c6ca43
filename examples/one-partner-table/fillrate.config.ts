import { defineConfig } from 'fillrate'

export default defineConfig({
  sources: {
    people: {
      kind: 'person',
      table: 'partner',
      joins: 'left join partner p on p.id = t.parent_id',
      where: "t.is_company is not true and t.type = 'contact' and t.active",
      inputs: {
        email: 't.email',
        name: 't.name',
        company: "coalesce(p.name, nullif(btrim(t.company_name), ''))",
      },
      minConfidence: 0.6,
      outputs: {
        function: 'title',
        phone: { field: 'phone', policy: 'tracked', minConfidence: 0.8 },
        x_linkedin: 'linkedin',
        x_department: 'department',
        x_seniority: {
          field: 'seniority',
          map: { c_suite: 'boss', vp: 'boss', director: 'boss', manager: 'manager' },
        },
      },
      touch: { write_date: "now() at time zone 'UTC'" },
    },

    companies: {
      kind: 'company',
      table: 'partner',
      where: 't.is_company and t.active',
      inputs: {
        // The website, or the domain of the main email address.
        domain: "coalesce(nullif(btrim(t.website), ''), split_part(t.email, '@', 2))",
      },
      outputs: {
        city: 'location.city',
        // Written only if the table has the name: nothing is inserted there.
        country_id: { field: 'location.country', sql: '(select c.id from country c where c.name = $value)' },
        industry_id: {
          field: 'industry',
          sql: '(select i.id from partner_industry i where i.name = $value)',
        },
        x_employees: 'employee_count',
        x_turnover: 'revenue',
        x_founded_year: 'founded_year',
      },
      touch: { write_date: "now() at time zone 'UTC'" },
    },
  },
  budget: 1_000,
})
