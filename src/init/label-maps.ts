import type { ColumnRole } from './roles.ts'
import { splitIdentifier } from './words.ts'

/**
 * What a service may send for a role, and how lists call it in several languages: `sent: other words`, words and phrases
 * separated by commas. The first service does not document its values, so these are the usual ones.
 */
const MEANINGS: Readonly<Partial<Record<ColumnRole, string>>> = {
  seniority: `
    owner, founder: co founder, proprietor, inhaber, gründer, fondateur, propietario, titolare
    c_suite, executive, cxo: c level, chief, csuite, clevel, exec, geschäftsführung, vorstand, direction générale, alta dirección
    partner
    vp, vice_president: svp, evp
    head: head of
    director: direktor, directeur, directrice, direttore
    manager, lead: management, team lead, supervisor, leiter, leitung, abteilungsleiter, responsable, cadre, gerente
    senior, principal: sr, expert, individual contributor
    mid, intermediate: mid level, professional, regular
    entry, junior: entry level, jr, associate, non manager, individual contributor, sachbearbeiter, employé
    intern, training: internship, trainee, student, praktikant, stagiaire`,
  department: `
    engineering, development: software engineering, r d, research and development, technik, technical, technique, entwicklung, ingeniería, techniek, ontwikkeling
    product: product management
    sales, business_development: vertrieb, verkauf, ventes, commercial, ventas, vendite, salg, försäljning, verkoop
    marketing: growth
    finance, accounting: financial, accounts, buchhaltung, finanzen, rechnungswesen, comptabilité, contabilidad, finanzas, amministrazione, financiën
    operations: ops, produktion, production, fertigung, operaciones, exploitation
    human_resources, hr, people: talent, personal, personnel, personalabteilung, ressources humaines, recursos humanos, rrhh, personeelszaken
    support, customer_success, customer_service: customer support, kundendienst, kundenservice, service clients, soporte
    legal, compliance: recht, rechtsabteilung, juridique, juridisch, jurídico
    it, information_technology: edv, informatique, informática
    design, creative
    data, analytics: data science
    education: training
    consulting: advisory
    medical, health: healthcare
    procurement: purchasing, supply chain, einkauf, achats, compras, inkoop
    management, executive: leadership, c suite, geschäftsleitung, direction, dirección, directie`,
  industry: `
    Software, Computer Software: saas, information technology, technology, it, computing, informatique, logiciels, informatik, edv, informática, tecnología
    Financial Services, Banking: finance, financial, fintech, bank, banken, banque, banca, finanzen, finanzas
    Health Care, Healthcare: hospital, medical, health, gesundheitswesen, gesundheit, santé, salud, sanità, zorg, helse
    Retail, Consumer Goods: e commerce, ecommerce, retail ecommerce, einzelhandel, commerce de détail, comercio, detailhandel, wholesale and retail
    Manufacturing, Machinery: industrial, produktion, prod gewerbe, produzierendes gewerbe, fertigung, maschinenbau, industrie, industria, fabrication, durable manufacturing
    Transportation, Logistics: transport, logistics and supply chain, logistik, transporte, trasporti, logistique, haulage, spedition, logística
    Energy, Utilities: oil gas, oil and gas, renewables, energie, énergie, energieversorgung, energía, versorger, utility
    Professional Services, Consulting: business services, agency, professional firms, dienstleistung, dienstleistungen, beratung, conseil, servicios, consultoría
    Education: e learning, bildung, éducation, educación
    Real Estate: property, immobilien, immobilier, inmobiliaria
    Construction: building, bau, baugewerbe, bâtiment, construcción
    Media, Entertainment: publishing, medien, médias
    Telecommunications: telecom, telco, telekommunikation, télécommunications
    Insurance: versicherung, versicherungen, assurance, assurances, seguros
    Hospitality, Travel: tourism, leisure travel tourism, gastgewerbe, tourismus, hôtellerie, hostelería
    Nonprofit: non profit, ngo, gemeinnützig, association
    Government: public sector, government administration, öffentlicher dienst, verwaltung, administration publique
    Agriculture: farming, landwirtschaft, agricultura`,
}

/** The values that a service may send, and every word for them, folded. */
interface Meaning {
  readonly sent: readonly string[]
  readonly words: ReadonlySet<string>
}

const foldText = (text: string): string => splitIdentifier(text).join(' ')

const listParts = (text: string): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '')

const READ: ReadonlyMap<string, readonly Meaning[]> = new Map(
  Object.entries(MEANINGS).map(([role, text]) => [
    role,
    text.split('\n').flatMap((line) => {
      const [sent, also] = line.split(':').map(listParts)
      return sent?.[0] === undefined
        ? []
        : [{ sent, words: new Set([...sent, ...(also ?? [])].map(foldText)) }]
    }),
  ]),
)

/**
 * Maps what a service may send for a role to the labels of a list; null if it means none of them. A column of countries
 * holds their codes, or their names in one language. Pure.
 */
export function mapToLabels(role: ColumnRole, labels: readonly string[]): Record<string, string> | null {
  const entries =
    role === 'country'
      ? toCountries(labels)
      : isHeadcount(role)
        ? toWiderRanges(labels)
        : toMeanings(role, labels)
  return entries.length === 0 ? null : Object.fromEntries(entries)
}

/** Whether a list is known by this label to be one of the role. Pure. */
export const isKnownLabel = (role: ColumnRole, label: string): boolean =>
  isHeadcount(role) ? parseRange(label) !== null : findMeanings(role, label).length > 0

type Entry = readonly [sent: string, label: string]

/**
 * Of several labels with one meaning the one of the same word is taken, or else none: which of them is meant is not known. An
 * unknown label stands for itself.
 */
function toMeanings(role: ColumnRole, labels: readonly string[]): Entry[] {
  if (!READ.has(role)) return []
  const claims = labels.flatMap((label) => {
    const meanings = findMeanings(role, label)
    const sent = meanings.length > 0 ? meanings.flatMap((one) => one.sent) : [asSent(role, label)]
    return sent.map((value) => ({ value, label }))
  })
  return [...Map.groupBy(claims, ({ value }) => value)].flatMap(([value, claimed]) => {
    // "lead" maps to LEAD if there is one, although a manager may be called a lead.
    const same = labels.find((label) => foldText(label) === foldText(value))
    const isOne = new Set(claimed.map(({ label }) => foldText(label))).size === 1
    const label = same ?? (isOne ? claimed[0]?.label : undefined)
    return label === undefined ? [] : [[value, label] as const]
  })
}

/** How a service would spell a label: `Space Travel`, `business_development`. */
function asSent(role: ColumnRole, label: string): string {
  const words = label.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []
  return role === 'industry'
    ? words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join(' ')
    : words.join('_')
}

/** `Banken u. Versicherungen`, `IT / Software`: what is joined. */
const JOINED = /\s*[/,&+]\s*|\s+(?:u\.|und|and|et|y|e|og|och|en)\s+/i

/** What a label means: as a whole, or each of what it joins. */
function findMeanings(role: ColumnRole, label: string): readonly Meaning[] {
  const named = (text: string): Meaning[] =>
    (READ.get(role) ?? []).filter(({ words }) => words.has(foldText(text)))
  const whole = named(label)
  if (whole.length > 0) return whole
  // Of `Administrative/Utilities` only half is understood.
  const parts = label.split(JOINED).map(named)
  return parts.every((part) => part.length > 0) ? parts.flat() : []
}

/** Employee ranges, as the service names them. */
const EMPLOYEE_RANGES = [
  '1-10',
  '11-50',
  '51-200',
  '201-500',
  '501-1000',
  '1001-5000',
  '5001-10000',
  '10001+',
]

/** Whether a role is a number of employees, exact or as a range. */
export const isHeadcount = (role: ColumnRole): boolean => role === 'employees' || role === 'employee_range'

/** `51-200 employees`, `1k - 5k`, `10,001+`, `< 10`; null if the label is no range. */
function parseRange(label: string): { readonly from: number; readonly to: number } | null {
  const text = label.toLowerCase().replaceAll(/(?<=\d)[,.'\s](?=\d{3}(?!\d))/g, '')
  const numbers = [...text.matchAll(/(\d+)\s*(k?)(?![a-z])/g)].map(
    ([, digits, unit]) => Number(digits) * (unit === 'k' ? 1_000 : 1),
  )
  const [from, to] = numbers
  if (from === undefined || numbers.length > 2) return null
  if (to !== undefined) return from <= to ? { from, to } : null
  if (/\+|^\s*>|over|more|above|plus|über|ab |mehr|más|mas |oltre|meer/.test(text))
    return { from, to: Infinity }
  return /^\s*<|under|less|below|up to|bis|unter|jusqu|moins|hasta|menos|fino|tot /.test(text)
    ? { from: 0, to: from }
    : null
}

/** From the service's ranges into those of a list that hold them whole. */
function toWiderRanges(labels: readonly string[]): Entry[] {
  const wide = labels.flatMap((label) => {
    const range = parseRange(label)
    return range === null ? [] : [{ label, ...range }]
  })
  if (wide.length < 2) return []
  return EMPLOYEE_RANGES.flatMap((sent) => {
    const narrow = parseRange(sent)
    const held = narrow && wide.find(({ from, to }) => from <= narrow.from && to >= narrow.to)
    return held ? [[sent, held.label] as const] : []
  })
}

/** Other names that a service may send for a country. */
const ALIASES: Readonly<Record<string, readonly string[]>> = {
  US: ['USA', 'United States of America'],
  GB: ['UK', 'Great Britain'],
  CZ: ['Czech Republic'],
  NL: ['The Netherlands'],
  KR: ['South Korea', 'Korea, Republic of'],
  TR: ['Turkey'],
  AE: ['UAE'],
}

const namesIn = (language: string): Intl.DisplayNames =>
  new Intl.DisplayNames([language], { type: 'region', fallback: 'none' })
const englishNames = namesIn('en')
const CODES = Array.from({ length: 26 * 26 }, (_, n) =>
  String.fromCharCode(65 + Math.floor(n / 26), 65 + (n % 26)),
).filter((code) => englishNames.of(code) !== undefined)
const LANGUAGES = ['de', 'fr', 'es', 'it', 'pt', 'nl', 'nb', 'sv', 'da', 'pl', 'fi']

/** Names that a service may send for a country. */
const sentNames = (code: string): string[] => {
  const name = englishNames.of(code)
  return name === undefined ? [] : [name, ...(ALIASES[code] ?? [])]
}

const CODE = /^(?:[A-Z]{2}|[a-z]{2})$/

/** Names of countries to what a list holds for them: the codes, or the names in another language. */
function toCountries(labels: readonly string[]): Entry[] {
  const used = [...new Set(labels.map((label) => label.trim()))].filter((label) => label !== '')
  const codeOf = used.every((label) => CODE.test(label))
    ? (label: string) => label.toUpperCase()
    : codeInLanguage(used)
  return used
    .flatMap((label) => {
      const code = codeOf?.(label) ?? null
      return code === null ? [] : sentNames(code).map((name) => [name, label] as const)
    })
    .toSorted(([a], [b]) => a.localeCompare(b))
}

/** The code of a name, in the language that most of the names are in; null if there is none. */
function codeInLanguage(used: readonly string[]): ((value: string) => string | null) | null {
  const plain = (name: string): string =>
    name
      .toLowerCase()
      .normalize('NFD')
      .replaceAll(/[\p{M}\s.’'-]/gu, '')
  const read = LANGUAGES.map((language) => {
    const names = namesIn(language)
    const codes = new Map(CODES.map((code) => [plain(names.of(code) ?? code), code]))
    for (const [code, aliases] of Object.entries(ALIASES))
      for (const alias of aliases) codes.set(plain(alias), code)
    codes.set(plain('Großbritannien'), 'GB')
    return { codes, known: used.filter((value) => codes.has(plain(value))).length }
  }).toSorted((a, b) => b.known - a.known)
  const [best] = read
  if (best === undefined || best.known * 4 < used.length * 3) return null
  return (value) => best.codes.get(plain(value)) ?? null
}

const REGIONS = new Set(CODES.flatMap(sentNames).map((name) => name.toLowerCase()))

/** Whether a text is a country's English name. */
export const isCountryName = (value: string): boolean => REGIONS.has(value.trim().toLowerCase())
