import type { RecordField } from '../domain/record-fields.ts'
import type { SourceKind } from '../domain/mapping.ts'

/** What a connector or a form builder puts before or behind the name of a column. */
const PREFIX = /^(?:_?(?:airbyte|fivetran|sdc|dlt|ab_cdc)_|properties_|attributes_|custom_|hs_|c_|x_)+/
const SUFFIX = /_{1,2}c$/

/** A name without what separates its words: `properties_jobTitle`, `job_title` → `jobtitle`. Pure. */
const toBareName = (name: string): string =>
  name
    .toLowerCase()
    .replace(PREFIX, '')
    .replace(SUFFIX, '')
    .replaceAll(/[^a-z0-9]/g, '')

/** The words of a name, in lower case: `contractEndsOn` → contract, ends, on. Pure. */
export const splitWords = (name: string): string[] =>
  name
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
    .filter((word) => word !== '')

/** The bare names of the columns that hold a field: its own name, and what English-speaking schemas call it. */
export const FIELD_NAMES: {
  readonly [Kind in SourceKind]: Readonly<Partial<Record<RecordField<Kind>, string>>>
} = {
  person: {
    email: 'email emailaddress workemail',
    'name.full': 'fullname name',
    'name.first': 'firstname givenname',
    'name.last': 'lastname surname familyname',
    title: 'title jobtitle position designation occupation function',
    seniority: 'seniority senioritylevel joblevel',
    department: 'department dept jobfunction',
    phone: 'phone phonenumber telephone workphone phonework businessphone directphone',
    linkedin: 'linkedin linkedinurl linkedinprofile linkedinprofileurl',
    'company.name': 'company companyname employer organization organisation accountname',
    'company.domain': 'companydomain companywebsite',
  },
  company: {
    name: 'name companyname accountname',
    legal_name: 'legalname registeredname',
    domain: 'domain website companydomain websiteurl',
    industry: 'industry industryname sector',
    sub_industry: 'subindustry',
    employee_count: 'employeecount employees employeescount numberofemployees numemployees headcount',
    employee_range: 'employeerange companysize size',
    revenue: 'revenue annualrevenue',
    revenue_range: 'revenuerange',
    founded_year: 'foundedyear founded yearfounded',
    'location.city': 'city hqcity billingcity billingaddresscity addresscity addressaddresscity',
    'location.state':
      'state region hqstate billingstate billingaddressstate addressstate addressaddressstate',
    'location.country':
      'country hqcountry billingcountry billingaddresscountry addresscountry addressaddresscountry countrycode',
    technologies: 'technologies techstack',
    'social.linkedin': 'linkedin linkedinurl linkedincompanypage linkedincompanyurl',
    'social.twitter': 'twitter twitterurl',
  },
}

/** Whether a column is named as a field of a record. */
export const isNamedAs = (column: string, names = ''): boolean =>
  names.split(' ').includes(toBareName(column))

/** Whether a column of this name is of a person, whatever else the table holds. */
export const isPersonColumn = (name: string): boolean =>
  /^(?:(?:first|last|given|family|middle|full)name|surname|jobtitle|salutation|birthday|birthdate|dateofbirth)$/.test(
    toBareName(name),
  )

/** Whether texts under this name are names of people, or of companies, however few they are: none is written into a configuration. */
export const isNameColumn = (name: string): boolean =>
  /^(?:(?:first|last|given|family|middle|full|display|contact|person|user|nick)?(?:name|nm)|surname)$/.test(
    toBareName(name),
  )

/** Addresses of others than the person of the row, and second ones. */
const OTHERS_ADDRESS =
  /^(?:owner|creator|created|updated|modified|sender|from|reply|cc|bcc|recipient|assigned|assignee|invited|inviter|manager|billing|invoice|support|secondary|alternate|other|additional|backup|previous|former|old|recovery|unconfirmed)$/

export const isOthersAddress = (name: string): boolean =>
  splitWords(name).some((word) => OTHERS_ADDRESS.test(word))

/** How much a name says that a column holds the address of the row's person; 0 if the values alone say so. */
export const rankEmailName = (name: string): number =>
  /^(?:email|emailaddress|workemail)$/.test(toBareName(name)) ? 2 : /e?mail/.test(toBareName(name)) ? 1 : 0

/** How much a name says that a column holds a company's site; 0: any URL may be there. */
export function rankDomainName(name: string): number {
  const bare = toBareName(name)
  if (/linkedin|twitter|facebook|instagram|xing|youtube|avatar|logo|image|photo|label/.test(bare)) return 0
  if (bare === 'domain' || bare === 'companydomain') return 3
  if (/domain/.test(bare)) return 2
  return /website|homepage|webpage|^web$|^site$|^url$|^www$/.test(bare) ? 1 : 0
}

/** Whether the rows of a table of this name are copies, versions or notes of what happened. */
export const isLogName = (name: string): boolean =>
  splitWords(name).some((word) =>
    /^(?:histor\w+|audits?|logs?|versions?|backup|archives?|old|te?mp)$/.test(word),
  )

const DELETION =
  /^(?:is|was|has)?(?:soft)?(?:delete|deleted|removed|discarded|trashed|erased|purged|anonymi[sz]ed)(?:at|on|date|time|flag)?$/
const OBJECTION =
  /^(?:is|was|has|have)?(?:e?mails?|sms|marketing|contact|phone|calls?|gdpr|global|all)*(?:unsubscribed?|opted?out|optout|dnc|suppress(?:ed|ion)?|bl[ao]c?klist(?:ed)?|objected|objection|donot(?:contact|call|e?mail|market|enrich|process|write|disturb)|nocontact|consent(?:withdrawn|revoked)|(?:withdrawn|revoked)consent|erasurerequested)(?:of|from)?(?:e?mails?|all|marketing|calls?)*(?:at|on|date|time|flag)?$/

/** Whether a name, or a label, says that the row was deleted, or that its person objected: `deleted_at`, `Do not contact`. */
export function isDeletionOrObjection(name: string): boolean {
  const bare = toBareName(name)
  return DELETION.test(bare) || OBJECTION.test(bare)
}

const ENDING =
  /^(?:end|ends|ended|ending|until|till|closed?|left|leaves|expir\w*|terminat\w*|cancel\w*|churned|lost|archived|suspended|disabled|deactivated|inactive|blocked|banned|bounced|withdrawn|revoked|resigned|retired|died|deceased|death|dissolved|ceased|merged|converted|rejected|disqualified|exit\w*|locked|quarantined)$/

/** Whether a date of this name ends something: `left_company_on`, `suspended_at`. */
export const isEndingDate = (name: string): boolean =>
  isDeletionOrObjection(name) || splitWords(name).some((word) => ENDING.test(word))

const POSITIVE =
  /\b(?:active|activated|enabled|subscribed|contactable|marketable|valid|verified|confirmed|current|public|opt ?in|consent|accepted|approved)\b/
const NEGATION = /\b(?:no|non|not|never|without|withdrawn|revoked|refused|missing)\b/

/** Whether the rows in question are those in which a flag of this name is not set: `active_flag`, `marketing_opt_in`. */
export function isPositiveFlag(name: string): boolean {
  const words = splitWords(name).join(' ')
  return POSITIVE.test(words) && !NEGATION.test(words)
}

/** Whether a number of this name counts something, and labels nothing: `open_deals_count`. */
export const isCount = (name: string): boolean =>
  splitWords(name).some((word) => /^(?:count|total|number|num|step|position|days|months|years)$/.test(word))
