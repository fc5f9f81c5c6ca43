import type { Config } from '../../config/config.ts'
import { defineConfig } from '../../config/define.ts'
import { parseConfig } from '../../config/parse.ts'
import type { DemoSettings } from './settings.ts'

/** The demo's configuration, as one would write it into fillrate.config.ts. */
export const demoConfig = ({ jobDeadline }: Pick<DemoSettings, 'jobDeadline'>): Config =>
  parseConfig(
    defineConfig({
      sources: {
        accounts: {
          kind: 'company',
          table: 'crm.accounts',
          where: 't.archived_at is null',
          inputs: { domain: 't.website' },
          outputs: {
            industry: 'industry',
            employees: 'employee_count',
            revenue: 'revenue',
            founded: 'founded_year',
            city: 'location.city',
            country: 'location.country',
            technologies: 'technologies',
            'attributes.sub_industry': 'sub_industry',
          },
          touch: { updated_at: 'now()', enriched_at: 'now()' },
        },
        contacts: {
          kind: 'person',
          table: 'crm.contacts',
          joins: 'left join crm.accounts a on a.id = t.account_id',
          where: 't.deleted_at is null',
          inputs: {
            email: 't.email',
            linkedin_url: 't.linkedin',
            name: "concat_ws(' ', t.first_name, t.last_name)",
            company: 'a.name',
          },
          minConfidence: 0.5,
          outputs: {
            title: 'title',
            phone: { field: 'phone', policy: 'tracked', minConfidence: 0.7 },
            seniority: {
              field: 'seniority',
              map: {
                c_suite: 'Executive',
                vp: 'VP',
                director: 'Director',
                manager: 'Manager',
                senior: 'Senior',
                entry: 'Entry',
              },
            },
            'attributes.department': 'department',
          },
          touch: { updated_at: 'now()', enriched_at: 'now()', match_confidence: '$confidence' },
        },
      },
      bulk: { deadline: jobDeadline, grace: '1s' },
      budget: 'unlimited',
    }),
    null,
  )
