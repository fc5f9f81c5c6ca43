import type { ColumnRole } from './roles.ts'
import { splitIdentifier } from './words.ts'

/**
 * What a service may send for a role, and how lists call it in several languages: `sent: other words`, words and phrases
 * separated by commas, meanings by lines or semicolons. The first service does not document its values, so these are the usual ones. A label that is not here stands
 * for itself.
 */
const MEANINGS: Readonly<Partial<Record<ColumnRole, string>>> = {
  seniority: `
    owner, founder: co founder, proprietor, inhaber, gründer, fondateur, propietario, titolare
    c_suite, executive, cxo: c level, chief, csuite, clevel, exec, geschäftsführung, vorstand, direction générale, alta dirección, dirección general, geschäftsleitung, direktion, direktør
    vp, vice_president: svp, evp
    head: head of
    director: direktor, directeur, directrice, direttore, dirección, bereichsleitung
    manager, lead: management, team lead, supervisor, leiter, leitung, abteilungsleiter, abteilungsleitung, mando intermedio, leder, responsable, cadre, gerente
    senior, principal: sr, expert
    mid, intermediate: mid level, professional, regular, técnico, fachkraft, specialist, medarbejder
    entry, junior: entry level, jr, associate, non manager, individual contributor, sachbearbeiter, employé
    intern, training: internship, trainee, student, praktikant, stagiaire`,
  department: `
    product: product management; design: creative; data: analytics, data science; education: training; consulting: advisory; medical: health
    engineering, development: software engineering, r d, research and development, technik, technical, technique, entwicklung, ingeniería, techniek, ontwikkeling
    sales, business_development: vertrieb, verkauf, ventes, commercial, ventas, vendite, salg, försäljning, verkoop
    marketing: growth
    finance, accounting: financial, accounts, buchhaltung, finanzen, rechnungswesen, comptabilité, contabilidad, finanzas, amministrazione, financiën
    operations: ops, produktion, production, fertigung, operaciones, exploitation
    human_resources, hr, people: talent, personal, personnel, personalabteilung, ressources humaines, recursos humanos, rrhh, personeelszaken
    support, customer_success, customer_service: customer support, kundendienst, kundenservice, service clients, soporte
    legal, compliance: recht, rechtsabteilung, juridique, juridisch, jurídico
    it, information_technology: edv, informatique, informática
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

/** Every word for a value that a service may send, folded, with all the values of that meaning. */
const SENT = new Map(
  Object.entries(MEANINGS).map(([role, text]) => [
    role,
    new Map(
      text.split(/[\n;]/).flatMap((line) => {
        const [sent = [], also = []] = line.split(':').map((part) => part.trim().split(/\s*,\s*/))
        return [...sent, ...also].map((word) => [foldText(word), sent] as const)
      }),
    ),
  ]),
)

function foldText(text: string): string {
  return splitIdentifier(text).join(' ')
}

/** A service's value, and the label that stands for it. */
type Entry = readonly [sent: string, label: string]

/**
 * Maps what a service may send for a role to the labels of a list; null if none of the labels is understood. Countries
 * are known by their codes and by their names in several languages. Pure.
 */
export function mapToLabels(role: ColumnRole, labels: readonly string[]): Record<string, string> | null {
  const used = [...new Set(labels)].filter((label) => label.trim() !== '')
  const entries =
    role === 'country' ? toCountries(used) : isHeadcount(role) ? toWiderRanges(used) : toMeanings(role, used)
  return entries.length === 0 ? null : Object.fromEntries(entries)
}

/** Whether a list is known by this label to be one of the role. Pure. */
export const isKnownLabel = (role: ColumnRole, label: string): boolean =>
  isHeadcount(role) ? parseRange(label) !== null : findSent(role, label).length > 0

/** Of several labels with one meaning the one of the same word is taken, or else none: which of them is meant is not known. */
function toMeanings(role: ColumnRole, labels: readonly string[]): Entry[] {
  if (!labels.some((label) => isKnownLabel(role, label))) return []
  const claims = labels.flatMap((label): Entry[] => {
    const sent = findSent(role, label)
    return (sent.length > 0 ? sent : [label]).map((value) => [value, label])
  })
  return [...Map.groupBy(claims, ([value]) => value)].flatMap(([value, claimed]): Entry[] => {
    // "lead" maps to LEAD if there is one, although a manager may be called a lead.
    const same = claimed.find(([, label]) => foldText(label) === foldText(value))
    const isOne = new Set(claimed.map(([, label]) => foldText(label))).size === 1
    const [, label] = same ?? (isOne ? claimed[0] : undefined) ?? []
    return label === undefined ? [] : [[value, label]]
  })
}

/** `Banken u. Versicherungen`, `IT / Software`: what is joined. */
const JOINED = /\s*[/,&+]\s*|\s+(?:u\.|und|and|et|y|e|og|och|en)\s+/i

/** The values that a label stands for: as a whole, or each of what it joins. */
function findSent(role: ColumnRole, label: string): readonly string[] {
  const known = (text: string): readonly string[] => SENT.get(role)?.get(foldText(text)) ?? []
  const whole = known(label)
  if (whole.length > 0) return whole
  // Of `Administrative/Utilities` only half is understood.
  const parts = label.split(JOINED).map(known)
  return parts.every((part) => part.length > 0) ? parts.flat() : []
}

/** Employee ranges, as the service names them. */
const EMPLOYEE_RANGES = '1-10 11-50 51-200 201-500 501-1000 1001-5000 5001-10000 10001+'.split(' ')

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
  GB: ['UK', 'Great Britain', 'Großbritannien'],
  CZ: ['Czech Republic'],
  NL: ['The Netherlands'],
  KR: ['South Korea', 'Korea, Republic of'],
  TR: ['Turkey'],
  AE: ['UAE'],
}
const LANGUAGES = ['en', 'de', 'fr', 'es', 'it', 'pt', 'nl', 'nb', 'sv', 'da', 'pl', 'fi']
const DISPLAY_NAMES = LANGUAGES.map(
  (language) => new Intl.DisplayNames([language], { type: 'region', fallback: 'none' }),
)

/** The English names of each country by its code, and the code by any name of it. */
const ENGLISH_NAMES = new Map<string, readonly string[]>()
const CODES = new Map<string, string>()
for (let n = 0; n < 26 * 26; n++) {
  const code = String.fromCharCode(65 + Math.floor(n / 26), 65 + (n % 26))
  const [english, ...others] = DISPLAY_NAMES.flatMap((names) => names.of(code) ?? [])
  if (english === undefined) continue
  const sent = [english, ...(ALIASES[code] ?? [])]
  ENGLISH_NAMES.set(code, sent)
  for (const name of [code, ...sent, ...others]) CODES.set(plainName(name), code)
}

function plainName(name: string): string {
  const plain = name.toLowerCase().normalize('NFD')
  return plain.replaceAll(/[\p{M}\s.’'-]/gu, '')
}

/** Names of countries to what a list holds for them, where most of it is known: codes, or names in any language. */
function toCountries(labels: readonly string[]): Entry[] {
  const known = labels.flatMap((label) => {
    const code = CODES.get(plainName(label))
    return code === undefined ? [] : [{ label, code }]
  })
  if (known.length * 4 < labels.length * 3) return []
  return known
    .flatMap(({ label, code }) => (ENGLISH_NAMES.get(code) ?? []).map((name) => [name, label] as const))
    .toSorted(([a], [b]) => a.localeCompare(b))
}

/** Whether a text is a country's English name. */
export function isCountryName(value: string): boolean {
  const name = plainName(value)
  return (ENGLISH_NAMES.get(CODES.get(name) ?? '') ?? []).some((one) => plainName(one) === name)
}
