/**
 * What CRMs call things. Names are split into words and put into the English words on the left, so that everything else
 * in `init` knows English only. Extend it here: a word that is missing costs a question, or a column that is not found.
 */
export const DICTIONARY: Readonly<Record<string, string>> = {
  deleted: `gelöscht gelösch supprimé supprimée effacé supresión eliminado eliminada borrado borrada eliminato cancellato excluído apagado apagamento
    verwijderd slettet slettad raderad borttagen usunięty deletion delete supprimer löschen removido gewist poistettu
    verwijdering effacement löschung eliminação eliminación cancellazione radering sletning usunięcie`,
  archived:
    'archiviert archivé archivada archivado archiviato arquivado gearchiveerd arkivert arkiverad archive arkiveret zarchiwizowany arkistoitu',
  inactive:
    'inaktiv inactif inactivo inattivo inativo inactief deaktiviert désactivé desactivado disattivato desativado gedeactiveerd nieaktywny ',
  active: 'aktiv actif activo attivo ativo actief aktywny aktiivinen',
  invalid: 'ungültig inválido ongeldig ugyldig ogiltig nieprawidłowy',
  lifted: 'aufgehoben levé levantado revocato liberação liberacao opgeheven opphevet upphävd',
  valid: 'gültig valide válido valido geldig gyldig giltig wazny',
  blocked:
    'bloqueio bloqueo blocco gesperrt bloqué bloqueado bloccato geblokkeerd stop sperrt blokkert sperrad sperre sperrung block blocage spärr spärrad spærret zablokowany',
  merged:
    'zusammengeführt fusionné fusionado fuso unito samengevoegd sammenslått merge aufgegangen absorbé absorbant absorbante absorbido sammanslagen uppgått sammenlagt accorpato mesclado unificado scalony yhdistetty',
  duplicate:
    'dublette duplikat doublon duplicado duplicata duplicato dup dubbel dubblett dublet duplicated dupe doublette duplicates',
  converted:
    'konvertiert umgewandelt converti convertido convertito geconverteerd konvertert übernommen repris konverterad omvandlad omgezet konverteret',
  anonymized:
    'anonymisiert anonymisé anonimizado anonimizzato geanonimiseerd anonymised anonymisation anonymization anonymiserad anonymiseret anonymisert zanonimizowany',
  deceased:
    'verstorben décédé decsd fallecido deceduto falecido overleden avliden muerto mort afdød død zmarły kuollut',
  left: 'ausgeschieden ausgetreten salido uscito saiu vertrokken sluttet slutat départ departure fratrådt ophørt odszedł sorti lähtenyt',
  spam: 'junk',
  lost: 'verloren perdu perdido perso förlorad tabt tapt utracony',
  closed:
    'geschlossen fermé cerrado chiuso fechado gesloten erledigt stängd avslutad lukket stengt zamknięty clos clôturé encerrado suljettu',
  restricted: `limitação limitación limitation restriction einschränkung eingeschränkt limitazione beperking beperkt begränsad begrænset ograniczony`,
  withdrawn:
    'widerrufen retiré révoqué retirado revocado revocato ritirato ingetrokken tilbakekalt återkallad withdraw återkallat tilbagekaldt wycofany revogado',
  refused:
    'abgelehnt refusé rechazado rifiutato recusado denegado negado geweigerd avslått nekad rejected declined avböjt afvist avvist odrzucony',
  accepted:
    'akzeptiert angenommen accepté accepte aceptado accettato aceito geaccepteerd godkjent godkänd accept accepterad godkendt accepteret zaakceptowany hyväksytty',
  canceled:
    'annulé cancelled storniert annullato cancelado geannuleerd avlyst avbokad inställd annulleret aflyst anulowany cancelada cancellata',
  consent: `agreement einwilligung zustimmung einverständnis consentement consentimiento consenso consentimento toestemming samtykke
    samtycke accord toestemmingen einwilligungen consentimientos consentimentos consensi samtykker samtycken erlaubt erlaubnis autorisé autorisation autoriza mag darf acepta agreed agreement zgoda zgody suostumus`,
  objection: `widerspruch widersprüche widersprochen objn opposition opposé opposée oposición opuesto opposizione oposição bezwaar objected
    reservert reserverad robinson robinsonliste bloctel repoussoir invändning indsigelse innsigelse sprzeciw`,
  unsubscribed: `abgemeldet desinscrit désinscrit désabonné baja disiscritto descadastrado uitgeschreven afgemeld avregistrerad
    avmeldt unsubscribe unsubscription austragung unsubscribes avregistrering avprenumererad afmeldt wypisany uitschrijving`,
  no: 'not kein keine keinen nicht pas non nao niet geen ingen ikke inte ej never dont jamais nie nein disallow refuse refus deny denied ei',
  gdpr: 'dsgvo rgpd lgpd avg lopd datenschutz privacy confidentialité privacidad ccpa',
  marketing:
    'werbung werbe publicité prospection publicidad pubblicità promotion promo acquisition akquise acquisitie reclame reklame reklam marknadsföring utskick markedsføring reklama markkinointi',
  newsletter: 'rundbrief infolettre boletín bulletin nyhetsbrev nieuwsbrief uutiskirje',
  contact: `kontakt contacter contactar contattare kontaktieren contacto contatto contato referente referenti kontaktperson ansprechpartner
    ansprechpartnerin interlocuteur contactable kontakte contactos contactpersoon approach benaderen solicit solicitation solliciter anschreiben yhteyshenkilö`,
  call: 'anrufen anruf appeler appel llamar llamada chiamare ligar bellen gebeld ring ringe',
  granted:
    'accordé accordée gegeven erteilt concedido concedida otorgado otorgada concesso beviljad udzielona',
  purpose: 'finalité zweck doel finalidad finalidade finalità ändamål formål cel',
  private: 'privat privée privé privado privato privata priv prywatny',
  'private person': 'consumer verbraucher consommateur consument particulier particular',
  staff: `mitarbeiter mitarbeiterin salarié collaborateur empleado dipendente funcionário medewerker ansatt anställd
    personnel colaborador trabajador medarbetare medarbejder medarbeider pracownik työntekijä`,
  internal: 'interne interno eigen own intern wewnętrzny',
  test: 'testdatensatz essai prueba prova teste dummy demo fake tester',
  person: `people persons personen personne personnes persona personas pessoa persone personer individual individu human
    menschen natural physical physique física fisica natürlich osoba osoby henkilö`,
  company: `firm firms unternehmen firma firmen société sociétés entreprise entreprises empresa empresas azienda aziende ditta bedrijf bedrijven
    företag selskap virksomhet betrieb soc comp compania compañía societa società bolag bolaget virksomhed spółka przedsiębiorstwo yritys`,
  organization:
    'org orgs organisation organisations organisational organización organizzazione organisatie organisme verein organizacja organisaatio',
  tenant: 'inquilino mandant mandante locataire huurder tenants',
  account: 'cuenta compte conto konto',
  lead: 'potenziale potenziali interesado interesada interessent prospect prospecto leads',
  customer: 'kunde kunden client cliente klant kund customers clients klient klienci asiakas',
  supplier: 'lieferant fournisseur proveedor fornitore leverancier leverandør leverantör dostawca toimittaja',
  user: 'benutzer utilisateur usuario utente usuário gebruiker bruker användare bruger użytkownik käyttäjä',
  employer: 'arbeitgeber employeur empleador arbetsgivare arbejdsgiver pracodawca werkgever',
  name: 'nm nom nombre nome naam navn namn bezeichnung denominación denominazione intitulé raison razon ragione libellé nazwa nimi',
  'first name':
    'vname vorname prénom forenames nombres voornaam fornavn förnamn firstname forename fname givenname rufname imię etunimi voornamen',
  'last name':
    'nname nachname familienname zuname apellido apellidos cognome sobrenome apelido apelidos achternaam etternavn efternamn surname lastname lname nazwisko sukunimi',
  'job title':
    'fkt jobtitle berufsbezeichnung jobbezeichnung puesto poste cargo mansione ruolo functie stilling befattning fonction función funktion stanowisko nimike qualifica beroep',
  department: 'abt abteilung departamento reparto afdeling avdeling avdelning dept afdelingen dział osasto',
  email: 'courriel correo mailadresse epost emailadresse adressemail emails gemaild mejl sähköposti',
  phone:
    'telefon telefono teléfono téléphone tel telephone tlf telefonnummer telefoon rufnummer durchwahl puhelin telefonu',
  mobile:
    'mob handy portable móvil movil cellulare celular telemóvel mobil mobilnummer mobiel gsm cell cellphone komórka matkapuhelin',
  website:
    'www webseite internetseite homepage sitio sito nettside hemsida internet webadresse siteweb internetadresse webbplats hjemmeside strona witryna kotisivu verkkosivu webpagina',
  domain: 'dominio domaine domäne domein domän domæne domene domena',
  industry:
    'branche secteur sector sectores settore setor bransje bransch sektor industrie rubro giro giros branża toimiala brancher',
  employees:
    'emps mitarbeiterzahl mitarbeiteranzahl effectif effectifs empleados dipendenti funcionarios anställda headcount plantilla ansatte pracownicy pracowników henkilöstö werknemers medewerkers colaboradores',
  revenue:
    'umsatz chiffre facturación facturacion fatturato faturamento omzet omsetning omsättning turnover jahresumsatz omsætning przychód obrót liikevaihto',
  founded:
    'estab established gegründet gründung gründungsjahr fondé fondée fundación fundada fondazione opgericht stiftet grundat grundlagt bildat założenia oprichting fundação perustettu',
  city: 'ort stadt ville ciudad città cidade plaats poststed localidad población wohnort gemeente commune stad miasto miejscowość kaupunki município comune',
  country: 'cntry land pays país paese nazione pais länder nation kraj',
  state:
    'bundesland région regione distrito provincia estado província kanton provincie fylke län województwo maakunta',
  address:
    'adr addr adresse dirección indirizzo endereço morada adres direccion adressen adresses anschrift domicile adress osoite',
  technologies: 'techstack techniken tecnologías',
  linkedin: 'linkedinprofil lnkd',
  seniority: 'ebene karrierestufe hierarchiestufe ancienneté nivel niveau nivå livello nível poziom',
  salutation:
    'anr anrede civilité civility civilite tratamiento saluto trattamento tratamento aanhef tiltale',
  birthday:
    'geburtstag geburtsdatum naissance nacimiento nascita birthdate dob nascimento geboortedatum födelsedatum fødselsdato urodzenia',
  source: 'herkunft quelle origine origen provenance provenienza origem bron kilde källa źródło',
  language: 'idioma sprache langue taal lingua språk sprak spr idiom sprog język',
  last: 'ultimo último letzter letzte letzt dernier dernière ultima laatste siste sista senast senaste sidste ostatni',
  created:
    'creado créé erstellt angelegt cree creato criado aangemaakt opprettet skapad anlage upplagd oprettet utworzono utworzony luotu',
  updated:
    'geändert modifié modifie actualizado modificado aggiornato gewijzigd endret ändrad änderung ændret opdateret zmieniono muokattu atualizado',
  quote: 'presupuesto angebot devis preventivo tilbud offert orçamento oferta tarjous offerte',
  order: 'auftrag bestellung commande pedido ordine bestelling ordre zamówienie tilaus pedidos',
  invoice: 'rechnung facture factura fattura factuur faktura fatura',
  activity: 'aktivität activité actividad attività activiteit aktivitet aktywność',
  meeting: 'termin réunion riunione møte besprechung rendezvous cita möte  reunião vergadering afspraak',
  task: 'aufgabe tâche tarea compito taak oppgave uppgift opgave zadanie tarefa',
  message: 'nachricht mensaje messaggio bericht melding meddelande besked wiadomość mensagem',
  project: 'projekt projet proyecto progetto',
  event: 'veranstaltung événement evento evenement arrangement evenemang begivenhed wydarzenie',
  owner:
    'besitzer propriétaire proprietaire propietario proprietario eigenaar eier ägare verantwortlich verantwortlicher zuständig ansvarig ansvarlig ejer właściciel opiekun omistaja responsável responsable verantwoordelijke',
  priority: 'priorität priorité prioridad priorità',
  group: 'gruppe groupe grupo gruppo groep',
  list: 'liste lista lijst',
  product: 'produkt produit producto prodotto',
  campaign: 'kampagne campagne campaña campagna kampanj kampanje kampania campanha',
  delivery: 'envío envio versand envoi spedizione verzending',
  type: 'typ art tipo genre soort kategori rodzaj tyyppi',
  kind: 'sorte clase',
  status: 'état etat statut stato statuts estatus situação zustand situation',
  tag: 'schlagwort étiquette etiqueta etichetta tags etikett etykieta mærke',
  date: 'dat datum fecha data_it dato dt',
  value: 'wert valeur valor valore waarde värde værdi wartość',
  number: 'anz nummer nr numéro número numero aantal antal anzahl zahl num liczba numer määrä',
  primary: 'haupt hauptadresse principal principale primaire primario',
  full: 'complet completo vollständig',
  year: 'jahr année ano año anno jaar år',
  enriched: `angereichert enrichi enrichie enriquecido enriquecida arricchito arricchita verrijkt beriket berikad beriget wzbogacony`,
  enrichment: `anreicherung enrichissement enriquecimiento enriquecimento arricchimento verrijking berikelse berikning berigelse`,
  request:
    'submission anfrage demande solicitud richiesta aanvraag enquiry inquiry förfrågan forespørgsel zapytanie verzoek verzoeken solicitação antrag begäran',
  registration:
    'anmeldung inscription inscripción iscrizione aanmelding signup registrations anmälan anmälning tilmelding påmelding rejestracja zgłoszenie inschrijving inscrição ilmoittautuminen',
  application: 'bewerbung candidature candidatura sollicitatie ansökan ansøgning',
  visitor: 'besucher besucherin visiteur visitante visitatore bezoeker besökare besøkende',
  suppression: 'suppressie supresión soppressione supressão supressões',
  household: 'haushalt foyer ménage hogar famiglia huishouden familie',
  applicant:
    'bewerber bewerberin candidat candidato kandidat sollicitant sökande ansøger søker kandydat hakija',
  infix: 'tussenvoegsel tussenvoegsels voorvoegsel',
  complaint: 'beschwerde plainte queja reclamo klacht queixa reclamação klage klagomål skarga',
  band: 'fascia tranche scaglione',
  page: 'pagina página seite',
  retired: 'retd ruhestand retraité jubilado reformado pensionato gepensioneerd pensjonert',
  of: 'von de des di du del van dos av',
  until: 'bis jusqu hasta fino tot tills indtil',
  end: 'ende fin fine slutt austritt austrittsdatum fini',
  description: 'descr beschreibung descripción descrizione libelle',
  note: 'bemerkung notiz remarque nota anmerkung',
  interest: 'intresse interesse intérêt interés interessen',
  size: 'taille größe tamaño dimensione dimensão tamanho grootte omvang storlek størrelse wielkość',
  code: 'cd kod kode código codice',
  role: 'roll rol rôle rola rolle papel',
  bankrupt:
    ' insolvenz konkurs faillite quiebra fallimento falência faillissement upadłość liquidation dissolved',
}

/** Words that mean several. */
export const COMPOUNDS: Readonly<Record<string, string>> = {
  optout: 'opt out',
  optin: 'opt in',
  datarequest: 'data request',
  dnc: 'no contact',
  tps: 'no call',
  ctps: 'no call',
  robinson: 'no contact',
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
  ragionesociale: 'name',
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
  't eur': 'thousands',
  'primeiro name': 'first name',
  'tele phone': 'phone',
  'opted out': 'opt out',
  'opted in': 'opt in',
  'do no': 'no',
  'no lead': 'no contact',
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
    insolvent|inactive|suspended|blocked|banned|spam|merged|duplicate|deceased|hidden|quarantined|obsolete|retired|destroyed|tombstone|sunset|master record|canonical|replaced by|superseded|acquired by|left company|left organization|left employer|left job`,
  converted: 'converted',
  test: 'test|sample|sandbox',
  staff:
    'staff|employee|internal|admin|administrator|superuser|superadmin|agent|moderator|bot|colleague|confidential',
  private: 'private|private person|natural person|household|private customer',
  consent: 'consent|opt in|accepted|granted|gdpr',
  alive: 'enrichment|active|enabled|published|valid|in use',
} as const satisfies Readonly<Record<string, string>>
