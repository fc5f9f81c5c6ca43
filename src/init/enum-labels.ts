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

const isHeadcount = (role: ColumnRole): boolean => role === 'employees' || role === 'employee_range'

const foldText = (text: string): string => splitIdentifier(text).join(' ')

const readMeanings = (text: string): Meaning[] =>
  text
    .trim()
    .split('\n')
    .map((line) => {
      const [sent = '', also = ''] = line.split(':')
      const list = (words: string): string[] =>
        words
          .split(',')
          .map((word) => word.trim())
          .filter((word) => word !== '')
      return { sent: list(sent), words: new Set([...list(sent), ...list(also)].map(foldText)) }
    })

const READ: ReadonlyMap<string, readonly Meaning[]> = new Map(
  Object.entries(MEANINGS).map(([role, text]) => [role, readMeanings(text)]),
)

/** `Banken u. Versicherungen`, `IT / Software`: what is joined. */
const JOINED = /\s*[/,&+]\s*|\s+(?:u\.|und|and|et|y|e|og|och|en)\s+/i

/**
 * Maps values of the service to the labels that the column accepts; null if none match. Of several labels with one meaning the
 * one of the same word is taken, or else none: which of them is meant is not known. Pure.
 */
export function mapToLabels(role: ColumnRole, labels: readonly string[]): Record<string, string> | null {
  const claims = new Map<string, string[]>()
  for (const label of labels)
    for (const value of isHeadcount(role) ? rangesForLabel(label) : valuesForLabel(role, label))
      claims.set(value, [...(claims.get(value) ?? []), label])
  // "lead" maps to LEAD if there is one, although a manager may be called a lead.
  const entries = [...claims].flatMap(([value, claimed]) => {
    const same = labels.find((label) => foldText(label) === foldText(value))
    const label = same ?? (new Set(claimed.map(foldText)).size === 1 ? claimed[0] : undefined)
    return label === undefined ? [] : [[value, label] as const]
  })
  return entries.length === 0 ? null : Object.fromEntries(entries)
}

/** Whether the label is one of the usual ones for the role. */
export const isKnownLabel = (role: ColumnRole, label: string): boolean =>
  isHeadcount(role) ? rangesForLabel(label).length > 0 : findMeanings(role, label).length > 0

/** What a label means: as a whole, or each of what it joins. */
function findMeanings(role: ColumnRole, label: string): readonly Meaning[] {
  const meanings = READ.get(role) ?? []
  const named = (text: string): Meaning[] => meanings.filter(({ words }) => words.has(foldText(text)))
  const whole = named(label)
  if (whole.length > 0) return whole
  // Of `Administrative/Utilities` only half is understood.
  const parts = label.split(JOINED).map(named)
  return parts.every((part) => part.length > 0) ? parts.flat() : []
}

/** Values of the service that mean the label. An unknown label stands for itself. */
function valuesForLabel(role: ColumnRole, label: string): readonly string[] {
  if (!READ.has(role)) return []
  const meanings = findMeanings(role, label)
  if (meanings.length > 0) return meanings.flatMap(({ sent }) => sent)
  const words = label
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word !== '')
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
