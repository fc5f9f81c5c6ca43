/** Flags that say nothing about whether a row may be enriched. */
export const HARMLESS = `primary main default preferred favorite favourite starred pinned vip verified confirmed synced sync imported public
  featured customer vendor supplier partner lead qualified billable taxable exempt subscribed newsletter read open paid premium
  company person account contact decision maker influencer champion portal login onboarded completed processed reviewed
  newsletter enriched unlimited hot priority overdue manual automatic attachment children parent shared locked dirty changed
  invited approved answered replied opened clicked visible listed registered required created track tracking
  reference referenceable count total sms whatsapp fax influencer reporter follow followed following bulk letters notifications`

/** Dates that say nothing about whether a row may be enriched. */
export const HARMLESS_DATES = `created updated modified changed last next first birthday start started begin begins synced sync imported seen
  login activity contacted called visited viewed opened clicked replied meeting renewal renewed purchased order ordered signed enriched verified confirmed
  joined registered founded established followup follow callback reminder scheduled qualified assigned approved invited anniversary checked
  hired since recent latest converted sent read received delivered submitted accepted touched interaction review trial due contract won answered`

/** Lists, and texts, whose values say nothing about whether a row may be enriched. */
export const HARMLESS_LISTS = `language locale lang country currency timezone time zone priority rating gender sex salutation honorific title prefix suffix
  region territory industry size score grade color theme department seniority function level format plan tier payment terms shipping
  method preferred channel medium campaign utm position city province postcode zip owner unit density tax vat incoterms
  version revision location count total number year month day week hour age quantity frequency width height source origin leadsource by calling
  legal form juridica juridique sla band bracket ideal profile priority analytics interest product course focus round occasion shirt size conversion analytics
  comment description note liner bio about message text subject body url link image avatar photo filename notification delivery
  name titolo titel titre titulo speciality specialty skill diet dietary seat room allergies nationality birthday employees revenue folder invoice credit`

/** Keys of other rows that say nothing about whether this one may be enriched. */
export const HARMLESS_KEYS = `parent manager report reports supervisor boss referrer referred introduced head group owner assigned assignee created updated modified
  author by source campaign list status stage type category industry country city state region language currency title salutation team
  territory account company organization employer address image avatar photo file role department pricelist payment term tag segment
  sales agent rep responsible salesperson created import batch job form event product website folder`

/** Labels of rows that are used as any other. */
export const IN_USE = `active consented new open customer client lead prospect qualified working contacted nurture nurturing engaged subscribed member partner hot warm cold won
  evaluation standard default normal regular other unknown none general professional business verified approved confirmed published accepted
  granted full primary yes progress in enterprise mid market smb opportunity sales marketing subscriber evangelist connected given consent
  current live ok valid complete completed ready responded reached attempted attempt interested assigned person contact company account to
  individual organization true enabled available good main potential user visitor negotiation negotiating proposal meeting scheduled
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
