import { defineConfig } from 'fillrate'

/** What identifies a person, by SQL for its id: the same in each source, so that they share one lookup. */
const inputsOf = (person: string) => ({
  email: `(select e.address from crm.email e where e.person_id = ${person} and e.kind = 'work')`,
  linkedin_url: `(select p.linkedin from crm.person p where p.id = ${person})`,
  name: `(select p.full_name from crm.person p where p.id = ${person})`,
  company: `(select c.name from crm.employment m join crm.company c on c.id = m.company_id
              where m.person_id = ${person} and m.is_current and c.deleted_at is null)`,
})

const isKept = (person: string): string =>
  `exists (select from crm.person p where p.id = ${person} and p.deleted_at is null)`

export default defineConfig({
  sources: {
    people: {
      kind: 'person',
      table: 'crm.person',
      where: 't.deleted_at is null',
      inputs: inputsOf('t.id'),
      outputs: { phone: 'phone' },
      touch: { updated_at: 'now()' },
    },

    // The link row. Only the current job: a record does not describe an earlier one.
    jobs: {
      kind: 'person',
      table: 'crm.employment',
      where: `t.is_current and ${isKept('t.person_id')}`,
      inputs: inputsOf('t.person_id'),
      outputs: { job_title: 'title', department: 'department' },
    },

    // The email row. Its own address is blank where it is filled, so the profile or the name is looked up.
    emails: {
      kind: 'person',
      table: 'crm.email',
      where: `t.kind = 'work' and ${isKept('t.person_id')}`,
      inputs: inputsOf('t.person_id'),
      outputs: { address: 'email' },
    },

    companies: {
      kind: 'company',
      table: 'crm.company',
      where: 't.deleted_at is null',
      inputs: { domain: 't.website' },
      outputs: { industry: 'industry' },
      touch: { updated_at: 'now()' },
    },

    // The address row, all or nothing: a typed city never stands beside the country of another.
    addresses: {
      kind: 'company',
      table: 'crm.address',
      where: "t.owner_type = 'company'",
      inputs: {
        domain: '(select c.website from crm.company c where c.id = t.owner_id and c.deleted_at is null)',
      },
      outputs: {
        city: { field: 'location.city', group: 'place' },
        state: { field: 'location.state', group: 'place' },
        country: { field: 'location.country', group: 'place' },
      },
    },
  },
  budget: 1_000,
})
