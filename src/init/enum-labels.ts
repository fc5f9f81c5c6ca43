import type { ColumnRole } from './roles.ts'
import { splitIdentifier } from './identifier-words.ts'

/** Synonyms: the values that a service may send, and other words used in a CRM's labels. */
interface Meaning {
  readonly sent: readonly string[]
  readonly also?: readonly string[]
}

/** The service does not document its values, so these are the usual ones. */
const MEANINGS: Readonly<Partial<Record<ColumnRole, readonly Meaning[]>>> = {
  seniority: [
    { sent: ['owner', 'founder'], also: ['co founder', 'proprietor'] },
    { sent: ['c_suite', 'executive', 'cxo'], also: ['c level', 'chief', 'csuite', 'clevel', 'exec'] },
    { sent: ['partner'] },
    { sent: ['vp', 'vice_president'], also: ['svp', 'evp'] },
    { sent: ['head'], also: ['head of'] },
    { sent: ['director'] },
    { sent: ['manager', 'lead'], also: ['management', 'team lead', 'supervisor'] },
    { sent: ['senior', 'principal'], also: ['sr', 'staff', 'expert'] },
    { sent: ['mid', 'intermediate'], also: ['mid level', 'professional', 'regular'] },
    {
      sent: ['entry', 'junior'],
      also: ['entry level', 'jr', 'associate', 'non manager', 'individual contributor'],
    },
    { sent: ['intern', 'training'], also: ['internship', 'trainee', 'student'] },
  ],
  department: [
    {
      sent: ['engineering', 'development'],
      also: ['software engineering', 'r d', 'research and development'],
    },
    { sent: ['product'], also: ['product management'] },
    { sent: ['sales', 'business_development'] },
    { sent: ['marketing'], also: ['growth'] },
    { sent: ['finance', 'accounting'], also: ['financial'] },
    { sent: ['operations'], also: ['ops'] },
    { sent: ['human_resources', 'hr', 'people'], also: ['talent'] },
    { sent: ['support', 'customer_success', 'customer_service'], also: ['customer support', 'service'] },
    { sent: ['legal', 'compliance'] },
    { sent: ['it', 'information_technology'] },
    { sent: ['design', 'creative'] },
    { sent: ['data', 'analytics'], also: ['data science'] },
    { sent: ['education'], also: ['training'] },
    { sent: ['consulting'], also: ['advisory'] },
    { sent: ['medical', 'health'], also: ['healthcare'] },
    { sent: ['procurement'], also: ['purchasing', 'supply chain'] },
    { sent: ['management', 'executive'], also: ['leadership', 'c suite'] },
  ],
  industry: [
    { sent: ['Software', 'Computer Software'], also: ['saas', 'information technology', 'technology', 'it'] },
    { sent: ['Financial Services', 'Banking'], also: ['finance', 'fintech'] },
    { sent: ['Health Care', 'Healthcare'], also: ['hospital', 'medical', 'health'] },
    { sent: ['Retail', 'Consumer Goods'], also: ['e commerce', 'ecommerce'] },
    { sent: ['Manufacturing', 'Machinery'], also: ['industrial'] },
    { sent: ['Transportation', 'Logistics'], also: ['transport', 'logistics and supply chain'] },
    { sent: ['Energy', 'Utilities'], also: ['oil gas', 'oil and gas', 'renewables'] },
    { sent: ['Professional Services', 'Consulting'], also: ['business services'] },
    { sent: ['Education'], also: ['e learning'] },
    { sent: ['Real Estate'], also: ['property'] },
    { sent: ['Construction'], also: ['building'] },
    { sent: ['Media', 'Entertainment'], also: ['publishing'] },
    { sent: ['Telecommunications'], also: ['telecom', 'telco'] },
    { sent: ['Insurance'] },
    { sent: ['Hospitality', 'Travel'], also: ['tourism', 'leisure travel tourism'] },
    { sent: ['Nonprofit'], also: ['non profit', 'ngo'] },
    { sent: ['Government'], also: ['public sector', 'government administration'] },
    { sent: ['Agriculture'], also: ['farming'] },
  ],
}

/** Employee ranges, as the service names them. */
export const EMPLOYEE_RANGES = [
  '1-10',
  '11-50',
  '51-200',
  '201-500',
  '501-1000',
  '1001-5000',
  '5001-10000',
  '10001+',
]

const foldText = (text: string): string => splitIdentifier(text).join(' ')

/** Maps values of the service to the labels that the column accepts; null if none match. Pure. */
export function mapToLabels(role: ColumnRole, labels: readonly string[]): Record<string, string> | null {
  const map = new Map<string, string>()
  for (const label of labels)
    for (const value of role === 'employees' ? rangesForLabel(label) : valuesForLabel(role, label))
      map.set(value, label)
  // An identical word wins: "lead" maps to LEAD if there is one, although a manager may be called a lead.
  for (const label of labels) {
    const same = [...map.keys()].find((value) => foldText(value) === foldText(label))
    if (same !== undefined) map.set(same, label)
  }
  return map.size === 0 ? null : Object.fromEntries(map)
}

/** Whether the label is one of the usual ones for the role. */
export const isKnownLabel = (role: ColumnRole, label: string): boolean =>
  role === 'employees' ? rangesForLabel(label).length > 0 : findMeaning(role, label) !== undefined

const findMeaning = (role: ColumnRole, label: string): Meaning | undefined =>
  MEANINGS[role]?.find(({ sent, also = [] }) =>
    [...sent, ...also].some((word) => foldText(word) === foldText(label)),
  )

/** Values of the service that mean the label. An unknown label stands for itself. */
function valuesForLabel(role: ColumnRole, label: string): readonly string[] {
  if (MEANINGS[role] === undefined) return []
  const meaning = findMeaning(role, label)
  if (meaning) return meaning.sent
  const words = splitIdentifier(label)
  return role === 'industry'
    ? [words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join(' ')]
    : [words.join('_')]
}

/** Compares the numbers only, so that `51–200 employees` equals 51-200. */
function rangesForLabel(label: string): readonly string[] {
  const numbers = (text: string): string =>
    (text.replaceAll(/(?<=\d)[,.\s](?=\d{3})/g, '').match(/\d+/g) ?? []).join(' ')
  return EMPLOYEE_RANGES.filter((range) => numbers(range) === numbers(label))
}
