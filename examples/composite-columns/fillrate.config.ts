import { defineConfig } from 'fillrate'

/**
 * The country calling codes of ITU-T E.164.D. None is the beginning of another, and neither is one of these alternatives:
 * Postgres takes the longest, so that with a bare \d{3} among them +15559305746 would become +155.
 */
const callingCode =
  String.raw`'^\+(?:1|7|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|` +
  String.raw`(?:2[1-689]|3[578]|42|5[09]|6[7-9]|8[0578]|9[679])\d)'`

export default defineConfig({
  sources: {
    people: {
      kind: 'person',
      table: '"workspace_k3x9"."person"',
      joins: 'left join "workspace_k3x9"."company" c on c."id" = t."companyId" and c."deletedAt" is null',
      where: 't."deletedAt" is null',
      inputs: {
        email: 't."emailPrimary"',
        linkedin_url: 't."linkedinPrimaryUrl"',
        name: `concat_ws(' ', t."nameFirstName", t."nameLastName")`,
        company: 'c."name"',
      },
      outputs: {
        jobTitle: 'title',
        seniority: {
          field: 'seniority',
          map: {
            owner: 'OWNER',
            c_suite: 'C_LEVEL',
            vp: 'VP',
            director: 'DIRECTOR',
            manager: 'MANAGER',
            senior: 'SENIOR',
            entry: 'JUNIOR',
            intern: 'INTERN',
          },
        },
        department: 'department',
        // +4790000000 goes into two columns. A typed number keeps its own country code.
        phonePrimaryCallingCode: {
          field: 'phone',
          sql: `substring($value from ${callingCode})`,
          group: 'phone',
        },
        phonePrimaryNumber: {
          field: 'phone',
          sql: `regexp_replace($value, ${callingCode}, '')`,
          group: 'phone',
        },
      },
      touch: { updatedAt: 'now()' },
    },

    companies: {
      kind: 'company',
      table: '"workspace_k3x9"."company"',
      where: 't."deletedAt" is null',
      inputs: { domain: 't."domainPrimaryUrl"' },
      outputs: {
        linkedinPrimaryUrl: 'social.linkedin',
        industry: {
          field: 'industry',
          map: {
            Software: 'SOFTWARE',
            Manufacturing: 'MANUFACTURING',
            'Financial Services': 'FINANCIAL_SERVICES',
            'Health Care': 'HEALTH_CARE',
            Retail: 'RETAIL',
            Transportation: 'TRANSPORTATION',
            Energy: 'ENERGY',
            'Professional Services': 'OTHER',
          },
        },
        employees: 'employee_count',
        foundedYear: 'founded_year',
        annualRevenueAmountMicros: { field: 'revenue', sql: '$value::numeric * 1000000' },
        addressCity: { field: 'location.city', group: 'address' },
        addressState: { field: 'location.state', group: 'address' },
        addressCountry: { field: 'location.country', group: 'address' },
        techStack: 'technologies',
      },
      touch: { updatedAt: 'now()' },
    },
  },
  budget: 1_000,
})
