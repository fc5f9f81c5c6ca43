import { describe, expect, test } from 'vitest'
import { rolesOf, scoreName, type ColumnRole } from '../../../src/init/roles.ts'
import { singularize, splitIdentifier } from '../../../src/init/words.ts'

const pointsOf = (role: ColumnRole, column: string, table = 'contacts'): number =>
  scoreName(
    role,
    splitIdentifier(column),
    new Set(splitIdentifier(table).flatMap((word) => [word, singularize(word)])),
  )

describe('the role of a column name, in any convention', () => {
  const known: Readonly<Record<string, readonly string[]>> = {
    email: [
      'email',
      'contact_email',
      'emailAddress',
      'work_email',
      'EmailPrimary',
      'emailsPrimaryEmail',
      'E-Mail',
      'email1',
    ],
    profile: [
      'linkedin',
      'linkedin_url',
      'LinkedInProfile',
      'x_linkedin',
      'linkedinLinkPrimaryUrl',
      'linkedin_profile_url',
    ],
    first_name: ['first_name', 'firstName', 'FIRSTNAME', 'nameFirstName', 'given_name'],
    last_name: ['last_name', 'lastName', 'surname', 'family_name', 'nameLastName'],
    name: ['name', 'full_name', 'displayName', 'contact_name'],
    company_name: ['company', 'company_name', 'companyName', 'employer', 'organisation'],
    title: ['title', 'job_title', 'jobTitle', 'jobtitle', 'position', 'function', 'contact_title'],
    seniority: ['seniority', 'seniority_level', 'x_seniority', 'jobLevel'],
    department: ['department', 'dept', 'Department', 'contact_department'],
    phone: ['phone', 'phone_number', 'telephone', 'workPhone', 'phonePrimaryNumber', 'mobile'],
    domain: [
      'domain',
      'website',
      'websiteUrl',
      'domainPrimaryLinkUrl',
      'homepage',
      'company_url',
      'web_site',
    ],
    industry: ['industry', 'Industry', 'sector', 'company_industry'],
    employees: [
      'employees',
      'employee_count',
      'numberOfEmployees',
      'headcount',
      'x_employees',
      'NumberOfEmployees',
    ],
    revenue: ['revenue', 'annual_revenue', 'AnnualRevenue', 'annualRevenueAmountMicros', 'turnover'],
    founded: ['founded_year', 'foundedYear', 'year_founded', 'founded'],
    city: ['city', 'billing_address_city', 'addressCity', 'BillingCity', 'hqCity'],
    technologies: ['technologies', 'tech_stack', 'techStack', 'technology'],
  }
  test.each(Object.entries(known).flatMap(([role, names]) => names.map((name) => [name, role] as const)))(
    '%s: %s',
    (name, role) => {
      const points = [...new Set([...rolesOf('person'), ...rolesOf('company')])].map(
        (one) => [one, pointsOf(one, name)] as const,
      )
      const own = points.find(([one]) => one === role)?.[1] ?? 0
      expect(own).toBeGreaterThanOrEqual(60)
      // No other role fits better.
      const rivals = rolesOf((rolesOf('person') as readonly string[]).includes(role) ? 'person' : 'company')
      expect(points.filter(([one, others]) => rivals.includes(one) && others > own)).toEqual([])
    },
  )
})

describe('a column about something else has no role', () => {
  test.each<[ColumnRole, string]>([
    ['email', 'email_verified_at'],
    ['email', 'email_opt_out'],
    ['email', 'email_count'],
    ['email', 'manager_email'],
    ['email', 'email_template_id'],
    ['profile', 'linkedin_id'],
    ['profile', 'linkedin_followers'],
    ['name', 'username'],
    ['name', 'file_name'],
    ['title', 'title_id'],
    ['title', 'position_index'],
    ['phone', 'phone_type'],
    ['phone', 'fax'],
    ['phone', 'assistant_phone'],
    ['phone', 'phone_country_code'],
    ['domain', 'avatar_url'],
    ['domain', 'image_url'],
    ['industry', 'industry_id'],
    ['industry', 'industry_code'],
    ['employees', 'employees_updated_at'],
    ['revenue', 'annual_recurring_revenue'],
    ['revenue', 'revenue_currency'],
    ['revenue', 'expected_revenue'],
    ['city', 'birth_city'],
  ])('%s: %s', (role, name) => {
    expect(pointsOf(role, name)).toBeLessThan(60)
  })
})

test('prefers the main value to a secondary one', () => {
  for (const [role, first, second] of [
    ['email', 'email', 'alt_email'],
    ['email', 'primary_email', 'personal_email'],
    ['email', 'email1', 'email2'],
    ['phone', 'phone', 'mobile_phone'],
    ['phone', 'work_phone', 'home_phone'],
    ['city', 'billing_city', 'shipping_city'],
  ] as const)
    expect([first, pointsOf(role, first) > pointsOf(role, second)]).toEqual([first, true])
})
