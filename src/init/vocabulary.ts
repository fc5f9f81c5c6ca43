/**
 * What CRMs call things. Names are split into words and put into the English words on the left, so that everything else
 * in `init` knows English only. Extend it here: a word that is missing costs a question, or a column that is not found.
 */
export const DICTIONARY: Readonly<Record<string, string>> = {
  // Rows that are gone
  deleted: `gelöscht gelösch supprimé supprimée effacé supresión eliminado eliminada borrado borrada eliminato cancellato excluído apagado
    verwijderd slettet slettad raderad borttagen usunięty deletion delete supprimer löschen`,
  archived:
    'archiviert archivé archivada archivado archiviato arquivado gearchiveerd arkivert arkiverad archive',
  inactive:
    'inaktiv inactif inactivo inattivo inativo inactief deaktiviert désactivé desactivado disattivato',
  active: 'aktiv actif activo attivo ativo actief',
  valid: 'gültig valide válido valido geldig gyldig giltig',
  blocked:
    'gesperrt bloqué bloqueado bloccato geblokkeerd stop sperrt blokkert sperrad sperre sperrung block blocage',
  merged:
    'zusammengeführt fusionné fusionado fuso unito samengevoegd sammenslått merge aufgegangen absorbé absorbant absorbante absorbido',
  duplicate:
    'dublette duplikat doublon duplicado duplicata duplicato dup dubbel dubblett dublet duplicated dupe doublette duplicates',
  converted:
    'konvertiert umgewandelt converti convertido convertito geconverteerd konvertert übernommen repris',
  anonymized:
    'anonymisiert anonymisé anonimizado anonimizzato geanonimiseerd anonymised anonymisation anonymization',
  deceased: 'verstorben décédé decsd fallecido deceduto falecido overleden avliden muerto mort',
  left: 'ausgeschieden ausgetreten salido uscito saiu vertrokken sluttet slutat départ departure',
  spam: 'junk',
  lost: 'verloren perdu perdido perso',
  closed: 'geschlossen fermé cerrado chiuso fechado gesloten erledigt',
  restricted: `limitación limitation restriction einschränkung eingeschränkt limitazione beperking beperkt`,
  withdrawn:
    'widerrufen retiré révoqué retirado revocado revocato ritirato ingetrokken tilbakekalt återkallad withdraw',
  refused:
    'abgelehnt refusé rechazado rifiutato recusado denegado negado geweigerd avslått nekad rejected declined',
  accepted:
    'akzeptiert angenommen accepté accepte aceptado accettato aceito geaccepteerd godkjent godkänd accept',
  canceled: 'annulé cancelled storniert annullato cancelado geannuleerd avlyst',
  // Consent
  consent: `agreement einwilligung zustimmung einverständnis consentement consentimiento consenso consentimento toestemming samtykke
    samtycke accord erlaubt erlaubnis autorisé autorisation autoriza mag darf acepta agreed agreement`,
  objection: `widerspruch widersprochen objn opposition opposé opposée oposición opuesto opposizione oposição bezwaar objected
    reservert reserverad robinson robinsonliste bloctel`,
  unsubscribed: `abgemeldet desinscrit désinscrit désabonné baja disiscritto descadastrado uitgeschreven afgemeld avregistrerad
    avmeldt unsubscribe unsubscription austragung unsubscribes`,
  no: 'not kein keine keinen nicht pas non nao niet geen ingen ikke inte ej never dont jamais nie nein disallow refuse refus deny denied',
  gdpr: 'dsgvo rgpd lgpd avg lopd datenschutz privacy confidentialité privacidad ccpa',
  marketing:
    'werbung werbe publicité prospection publicidad pubblicità promotion promo acquisition akquise acquisitie reclame reklame',
  newsletter: 'rundbrief infolettre boletín bulletin nyhetsbrev nieuwsbrief',
  contact: `kontakt contacter contactar contattare kontaktieren contacto contatto contato kontaktperson ansprechpartner
    ansprechpartnerin interlocuteur contactable kontakte contactos contactpersoon approach benaderen solicit solliciter anschreiben`,
  call: 'anrufen anruf appeler appel llamar llamada chiamare ligar bellen gebeld ring ringe',
  // People and companies
  private: 'privat privée privé privado privato privata priv',
  'private person': 'consumer verbraucher consommateur consument particulier particular',
  staff: `mitarbeiter mitarbeiterin salarié collaborateur empleado dipendente funcionário medewerker ansatt anställd
    personnel colaborador trabajador`,
  internal: 'interne interno eigen own',
  test: 'testdatensatz essai prueba prova teste dummy demo fake tester',
  person: `people persons personen personne personnes persona personas pessoa persone personer individual individu human
    menschen natural physical physique física fisica natürlich`,
  company: `unternehmen firma firmen société sociétés entreprise entreprises empresa empresas azienda aziende ditta bedrijf bedrijven
    företag selskap virksomhet betrieb soc comp compania compañía societa società`,
  organization:
    'org orgs organisation organisations organisational organización organizzazione organisatie organisme verein',
  tenant: 'inquilino mandant mandante locataire huurder tenants',
  account: 'cuenta compte conto konto',
  lead: 'potenziale potenziali interesado interesada interessent prospect prospecto leads',
  customer: 'kunde kunden client cliente klant kund customers clients',
  supplier: 'lieferant fournisseur proveedor fornitore leverancier leverandør',
  user: 'benutzer utilisateur usuario utente usuário gebruiker bruker användare',
  employer: 'arbeitgeber employeur empleador',
  // Facts
  name: 'nom nombre nome naam navn namn bezeichnung denominación denominazione intitulé raison razon ragione libellé',
  'first name':
    'vname vorname prénom forenames nombres voornaam fornavn förnamn firstname forename fname givenname rufname',
  'last name':
    'nname nachname familienname zuname apellido apellidos cognome sobrenome achternaam etternavn efternamn surname lastname lname',
  'job title':
    'fkt jobtitle berufsbezeichnung jobbezeichnung puesto poste cargo mansione ruolo functie stilling befattning fonction función funktion',
  department: 'abt abteilung departamento reparto afdeling avdeling avdelning dept',
  email: 'courriel correo mailadresse epost emailadresse adressemail emails gemaild',
  phone: 'telefon telefono teléfono téléphone tel telephone tlf telefonnummer telefoon rufnummer durchwahl',
  mobile: 'mob handy portable móvil movil cellulare celular mobil mobilnummer mobiel gsm cell cellphone',
  website:
    'www webseite internetseite homepage sitio sito nettside hemsida internet webadresse siteweb internetadresse',
  industry: 'branche secteur sector sectores settore setor bransje bransch sektor industrie rubro giro giros',
  employees:
    'emps mitarbeiterzahl mitarbeiteranzahl effectif effectifs empleados dipendenti funcionarios anställda headcount plantilla',
  revenue:
    'umsatz chiffre facturación facturacion fatturato faturamento omzet omsetning omsättning turnover jahresumsatz',
  founded:
    'estab established gegründet gründung gründungsjahr fondé fondée fundación fundada fondazione opgericht stiftet grundat ',
  city: 'ort stadt ville ciudad città cidade plaats poststed localidad población wohnort gemeente commune',
  country: 'cntry land pays país paese pais länder nation',
  state: 'bundesland région provincia estado província kanton provincie fylke',
  address:
    'adr addr adresse dirección indirizzo endereço adres direccion adressen adresses anschrift domicile',
  technologies: 'techstack techniken tecnologías',
  linkedin: 'linkedinprofil lnkd',
  seniority: 'karrierestufe hierarchiestufe ancienneté nivel niveau',
  salutation:
    'anr anrede civilité civility civilite tratamiento saluto trattamento tratamento aanhef tiltale',
  birthday: 'geburtstag geburtsdatum naissance nacimiento nascita birthdate dob nascimento geboortedatum',
  source: 'herkunft quelle origine origen provenance provenienza origem bron kilde',
  // What is kept of the work with them
  language: 'idioma sprache langue taal lingua språk sprak spr idiom',
  last: 'ultimo último letzter letzte letzt dernier dernière ultima laatste siste sista',
  created: 'creado créé erstellt angelegt cree creato criado aangemaakt opprettet skapad anlage',
  updated: 'geändert modifié modifie actualizado modificado aggiornato gewijzigd endret ändrad änderung',
  quote: 'presupuesto angebot devis preventivo tilbud offert orçamento',
  order: 'auftrag bestellung commande pedido ordine bestelling ordre',
  invoice: 'rechnung facture factura fattura factuur faktura fatura',
  activity: 'aktivität activité actividad attività activiteit aktivitet',
  meeting: 'termin réunion riunione møte besprechung rendezvous cita',
  task: 'aufgabe tâche tarea compito taak oppgave',
  message: 'nachricht mensaje messaggio bericht melding meddelande',
  project: 'projekt projet proyecto progetto',
  event: 'veranstaltung événement evento evenement arrangement',
  owner:
    'besitzer propriétaire proprietaire propietario proprietario eigenaar eier ägare verantwortlich verantwortlicher zuständig',
  priority: 'priorität priorité prioridad priorità',
  group: 'gruppe groupe grupo gruppo groep',
  list: 'liste lista lijst',
  product: 'produkt produit producto prodotto',
  campaign: 'kampagne campagne campaña campagna',
  delivery: 'envío envio versand envoi spedizione verzending',
  // Others
  type: 'typ art tipo genre soort kategori',
  kind: 'sorte clase',
  status: 'état etat statut stato statuts estatus situação zustand situation',
  tag: 'schlagwort étiquette etiqueta etichetta tags',
  date: 'dat datum fecha data_it dato dt',
  value: 'wert valeur valor valore waarde',
  number: 'anz nummer nr numéro número numero aantal antal anzahl zahl num',
  primary: 'haupt hauptadresse principal principale primaire primario',
  full: 'complet completo vollständig',
  year: 'jahr année ano año anno jaar år',
  enriched: `angereichert enrichi enrichie enriquecido enriquecida arricchito arricchita verrijkt beriket berikad beriget`,
  enrichment: `anreicherung enrichissement enriquecimiento enriquecimento arricchimento verrijking berikelse berikning berigelse`,
  request: 'submission anfrage demande solicitud richiesta aanvraag enquiry inquiry',
  registration: 'anmeldung inscription inscripción iscrizione aanmelding signup registrations',
  application: 'bewerbung candidature candidatura sollicitatie',
  household: 'haushalt foyer ménage hogar famiglia huishouden familie',
  retired: 'retd ruhestand retraité jubilado pensionato gepensioneerd pensjonert',
  of: 'von de des di du del van dos av',
  until: 'bis jusqu hasta fino tot',
  end: 'ende fin fine slutt austritt austrittsdatum fini',
  description: 'descr beschreibung descripción descrizione libelle',
  note: 'bemerkung notiz remarque nota anmerkung',
}

/** Words that mean several. */
export const COMPOUNDS: Readonly<Record<string, string>> = {
  optout: 'opt out',
  optin: 'opt in',
  dnc: 'no contact',
  donotcall: 'no call',
  donotcontact: 'no contact',
  werbesperre: 'no marketing',
  werbeverbot: 'no marketing',
  kontaktsperre: 'no contact',
  anrufsperre: 'no call',
  mailsperre: 'no email',
  werbeerlaubnis: 'marketing consent',
  privatperson: 'private person',
  privatkunde: 'private person',
  endkunde: 'private person',
  particuliers: 'private person',
  socpeople: 'company people',
  bpartner: 'business partner',
  subindustry: 'sub industry',
  branchenkuerzel: 'industry code',
  firmenname: 'company name',
  kundennummer: 'customer number',
  plz: 'postcode',
  cp: 'postcode',
  fk: '',
  kz: '',
  tbl: '',
  ne: 'no',
  sperrliste: 'blocklist',
  donotsendmm: 'no send marketing',
  teur: 'thousands',
  tsd: 'thousands',
  mel: 'email',
  coordonnees: 'contact details',
  coordonnee: 'contact details',
  consentements: 'consent',
  perso: 'private',
  postalmail: 'postal mail',
  username: 'username',
  invalid: 'invalid',
  complete: 'complete',
  donot: 'no',
}

/** Adjacent words that mean one word, or others. */
export const WORD_PAIRS: Readonly<Record<string, string>> = {
  'linked in': 'linkedin',
  'b 2': 'b2',
  'b2 c': 'private person',
  'e mail': 'email',
  'no no': 'no',
  'no plus': 'no',
  'no more': 'no',
  'no longer': 'no',
  'name sociale': 'name',
  'name social': 'name',
  'name full': 'full name',
  'year creation': 'founded year',
  'creation year': 'founded year',
  'phase life': 'lifecycle',
  'web site': 'website',
  'home page': 'website',
  'site website': 'website',
  'page website': 'website',
  'tech stack': 'technologies',
  'head count': 'employees',
  'sur name': 'last name',
  'tele phone': 'phone',
  'opted out': 'opt out',
  'opted in': 'opt in',
  'do no': 'no',
  'black list': 'blacklist',
  'block list': 'blocklist',
  'blocked list': 'blocklist',
  'person account': 'private person',
  'soft deleted': 'deleted',
}

/**
 * What a flag, a label or a tag says of a row, in the English words. A phrase's words must be adjacent. `no` with a channel
 * (`no call`) is an objection without being listed.
 */
export const MEANINGS = {
  objection: `opt out|unsubscribed|objection|forget|suppressed|blacklisted|blacklist|blocklisted|blocklist|denylisted|complained|complaint|restricted|
    marketing blocked|contact blocked|call blocked|email blocked|consent withdrawn|consent revoked|consent refused|no consent|withdrawn|revoked|refused contact|do no sell`,
  gone: `deleted|removed|archived|trashed|trash|discarded|anonymized|erased|erasure|suppression|voided|purged|forgotten|erase|redacted|disabled|deactivated|
    inactive|suspended|blocked|banned|spam|merged|duplicate|deceased|hidden|quarantined|obsolete|retired|destroyed|tombstone|sunset|master record|replaced by|superseded|left company|left organization|left employer|left job`,
  converted: 'converted',
  test: 'test|sample|sandbox',
  staff:
    'staff|employee|internal|admin|administrator|superuser|superadmin|agent|moderator|bot|colleague|confidential',
  private: 'private|private person|natural person|household|private customer',
  consent: 'consent|opt in|accepted|gdpr',
  alive: 'enrichment|active|enabled|published|valid|in use',
} as const satisfies Readonly<Record<string, string>>

/** Flags that say nothing about whether a row may be enriched. */
export const HARMLESS = `primary main default preferred favorite favourite starred pinned vip verified confirmed synced sync imported public
  featured customer vendor supplier partner lead qualified billable taxable exempt subscribed newsletter read open paid premium
  company person account contact decision maker influencer champion portal login onboarded completed processed reviewed
  newsletter enriched unlimited hot priority overdue manual automatic attachment children parent shared locked dirty changed
  invited approved answered replied opened clicked visible listed registered required created track tracking
  reference referenceable influencer reporter follow followed following bulk letters notifications`

/** Dates that say nothing about whether a row may be enriched. */
export const HARMLESS_DATES = `created updated modified changed last next first birthday start started begin begins synced sync imported seen
  login activity contacted called visited viewed opened clicked replied meeting renewal renewed purchased order ordered signed enriched verified confirmed
  joined registered founded established followup follow callback reminder scheduled qualified assigned approved invited anniversary checked
  hired since recent latest converted sent read received delivered submitted accepted touched interaction review trial due contract won answered`

/** Lists, and texts, whose values say nothing about whether a row may be enriched. */
export const HARMLESS_LISTS = `language locale lang country currency timezone time zone priority rating gender sex salutation honorific title prefix suffix
  region territory industry size score grade color theme department seniority function level format plan tier payment terms shipping
  method preferred channel medium campaign utm position city province postcode zip owner unit density tax vat incoterms
  version revision count total number year month day week hour age quantity frequency width height source origin leadsource by calling
  legal form juridica juridique sla band bracket ideal profile priority analytics interest product course focus round occasion shirt size conversion analytics
  comment description note liner bio about message text subject body url link image avatar photo filename notification delivery
  name titolo titel titre titulo speciality specialty skill diet dietary seat room allergies nationality birthday employees revenue folder invoice credit`

/** Keys of other rows that say nothing about whether this one may be enriched. */
export const HARMLESS_KEYS = `parent manager report reports supervisor boss referrer referred introduced head group owner assigned assignee created updated modified
  author by source campaign list status stage type category industry country city state region language currency title salutation team
  territory account company organization employer address image avatar photo file role department pricelist payment term tag segment
  sales agent rep responsible salesperson created import batch job form event product website folder`

/** Labels of rows that are used as any other. */
export const IN_USE = `active new open customer client lead prospect qualified working contacted nurture nurturing engaged subscribed member partner hot warm cold won
  evaluation standard default normal regular other unknown none general professional business verified approved confirmed published accepted
  granted full primary yes progress in enterprise mid market smb opportunity sales marketing subscriber evangelist connected given consent
  current live ok valid complete completed ready responded reached attempted attempt interested assigned person contact company account to
  individual organization true enabled available good main potential candidate user visitor negotiation negotiating proposal meeting scheduled
  web website event events trade show fair referral phone email inbound outbound form import manual advertisement linkedin call of the and
  mailing list social media word mouth google public relations conference webinar seminar api app replied process processing work suspect invited
  screening cultivating portfolio reseller distributor supplier vendor foundation government technology legitimate interest interests channel direct
  key vip newsletter alumni speaker exhibitor sponsor attendee guest donor volunteer investor legal contract registered salesqualified marketingqualified`

/** Tables that list rows for reasons which say nothing against them. */
export const HARMLESS_TABLES = `activity order invoice note comment email mail message ticket event registration meeting call task deal opportunity project address phone
  attachment file history log audit contract quote offer payment visit session score tag group segment list member team job position education
  experience skill view click delivery mailing campaign newsletter response survey answer booking product license role link relation relationship
  employment affiliation participant attendance document version field value data custom detail information point channel url website social profile
  translation follower watcher share score form case issue appointment reminder touchpoint interaction timeline feed source import sync metadata
  revenue sale purchase donation gift pledge membership award publication photo image avatar device token oauth identity account checkin candidate
  application interview placement assignment shift timesheet course enrollment grade`
