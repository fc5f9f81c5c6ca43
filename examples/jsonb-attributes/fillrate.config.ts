import { defineConfig } from 'fillrate'

/** The tenant whose rows may be read and written; those of the others are never touched. */
const tenant = "'22222222-2222-4222-8222-222222222222'"

export default defineConfig({
  sources: {
    people: {
      kind: 'person',
      table: 'app.people',
      joins:
        'left join app.organizations o on o.tenant_id = t.tenant_id and o.id = t.organization_id and not o.is_deleted',
      // The primary key, (tenant_id, id).
      where: `t.tenant_id = ${tenant} and not t.is_deleted`,
      inputs: {
        email: "t.attributes ->> 'email'",
        name: 't.display_name',
        company: 'o.name',
      },
      outputs: {
        // A key inside the column: its siblings are kept, and missing parents are created.
        'attributes.title': 'title',
        'attributes.contact.phone': 'phone',
        'attributes.contact.linkedin': 'linkedin',
        'attributes.work.department': 'department',
        'attributes.work.seniority': 'seniority',
      },
      touch: { updated_at: 'now()' },
    },

    organizations: {
      kind: 'company',
      table: 'app.organizations',
      where: `t.tenant_id = ${tenant} and not t.is_deleted`,
      inputs: { domain: "t.attributes ->> 'website'" },
      outputs: {
        'attributes.firmographics.industry': 'industry',
        'attributes.firmographics.employees': 'employee_count',
        'attributes.hq.city': { field: 'location.city', group: 'hq' },
        'attributes.hq.country': { field: 'location.country', group: 'hq' },
        'attributes.technologies': 'technologies',
      },
      touch: { updated_at: 'now()' },
    },
  },
  budget: 1_000,
})
