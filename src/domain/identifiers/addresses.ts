import { isIP } from 'node:net'
import { getPublicSuffix } from 'tldts'
import type { NormalizedInput } from './kind.ts'
import { trimBlank } from '../text.ts'
import { domainToASCII } from 'node:url'

type HostCheck =
  | { readonly ok: true; readonly host: string }
  | { readonly ok: false; readonly reason: string }

/** RFC 1035 section 2.3.4: 255 octets on the wire are 253 characters of text. */
const MAX_HOST_LENGTH = 253
const MAX_LABEL_LENGTH = 63

/** Every ASCII character but `a-z`, `0-9`, `-` and `.`. */
const FORBIDDEN_CHARACTERS = /[\0-,/:-`{-\x7f]/

/**
 * A host name in lower-case A-label form (`Bücher.de` → `xn--bcher-kva.de`), or null if impossible.
 * Labels are checked by `checkHost`.
 *
 * `domainToASCII` alone would not do: it decodes `%2e`, cuts at a slash, and reads `1.2.3` and `0x7f.1` as IPv4
 * addresses. So it is called only if there is something to convert, and never with a character that no host has.
 */
function toAsciiHost(text: string): string | null {
  // A Unicode name is at most a few times longer than its A-labels; longer ones would take quadratic time.
  if (text.length > 4 * MAX_HOST_LENGTH) return null
  const lower = text.toLowerCase()
  if (/^[a-z\d.-]*$/.test(lower) && !lower.includes('xn--')) return lower
  if (FORBIDDEN_CHARACTERS.test(lower)) return null
  const host = domainToASCII(lower)
  return host === '' || FORBIDDEN_CHARACTERS.test(host) ? null : host
}

/** Checks that a name in A-label form is an internet host: dotted, with labels of letters, digits and hyphens. */
function checkHost(host: string): HostCheck {
  const reject = (reason: string): HostCheck => ({ ok: false, reason })
  if (host === '') return reject('no host')
  if (host === 'localhost' || host.endsWith('.localhost')) return reject('localhost')
  if (host.length > MAX_HOST_LENGTH) return reject('host over 253 characters')
  const labels = host.split('.')
  if (labels.includes('')) return reject('host with an empty label')
  // WHATWG URL, "ends in a number checker": such a host is an IPv4 address or nothing.
  if (/^(?:\d+|0x[\da-f]*)$/.test(labels.at(-1) ?? '')) return reject('IP address')
  if (labels.length < 2) return reject('host without a dot')
  for (const label of labels) {
    if (label.length > MAX_LABEL_LENGTH) return reject('host with a label over 63 characters')
    if (label.startsWith('-') || label.endsWith('-'))
      return reject('host with a hyphen at the end of a label')
  }
  return { ok: true, host }
}

/**
 * The parts of a web address as people type it, with or without a scheme. Split by hand, because `new URL` rejects
 * `acme.com`, reads `acme.com:80` as the scheme `acme.com:`, and drops and decodes characters that make a value invalid.
 */
interface UrlParts {
  readonly hasScheme: boolean
  /** The host, with any port and user name: everything up to the first `/`, `\`, `?` or `#`. */
  readonly authority: string
  /** From the first slash, without query and fragment; may be empty. */
  readonly path: string
}

/** Also `https:acme.com`, `http:/acme.com` and `//acme.com`. */
const SCHEME = /^(?:https?:[\\/]*|[a-z][a-z0-9+.-]{0,30}:\/\/|\/\/)/i

function splitUrl(text: string): UrlParts {
  let rest = text
  // Repeatedly: forms that prefix `https://` to pasted text produce `https://https://acme.com`.
  for (let times = 0; times < 3; times++) rest = rest.replace(SCHEME, '')
  const end = rest.search(/[/\\?#]/)
  const authority = end === -1 ? rest : rest.slice(0, end)
  const tail = end === -1 ? '' : rest.slice(end)
  const query = tail.search(/[?#]/)
  return { hasScheme: rest !== text, authority, path: query === -1 ? tail : tail.slice(0, query) }
}

/** The authority without its port. */
function stripPort(authority: string): string {
  return authority.replace(/:\d{0,5}$/, '')
}

/** Longer than any address in practice, and short enough to parse. */
const MAX_URL_LENGTH = 4096

const rejectDomain = (reason: string) => ({ ok: false, reason, input: 'domain' }) as const

/**
 * Normalizes a company's domain from a URL or a host: without scheme, port, path, leading `www.` and trailing dot, in
 * lower case and A-label form. Subdomains are kept: `mail.acme.co.uk` is another lookup than `acme.co.uk`.
 *
 * Free-mail hosts, social hosts and public suffixes (`co.uk`, `github.io`) are rejected before they cost a call: the
 * service would return the host's owner, and every company with a page there would get that owner's figures.
 */
export function normalizeDomain(raw: string | null): NormalizedInput<{ domain: string }> {
  const text = trimBlank(raw ?? '')
  if (text === '') return null
  if (text.length > MAX_URL_LENGTH) return rejectDomain('over 4,096 characters')
  const { hasScheme, authority } = splitUrl(text)
  if (authority.includes('@')) return rejectDomain(hasScheme ? 'address with a user name' : 'email address')
  if (/[,;]/.test(authority)) return rejectDomain('list of domains')
  if (/\s/.test(authority)) return rejectDomain('white space inside')
  if (authority.startsWith('[') || isIP(authority) !== 0) return rejectDomain('IP address')

  const ascii = toAsciiHost(stripPort(authority))
  if (ascii === null) return rejectDomain('host with a character that is not allowed')
  const checked = checkHost(withoutWww(ascii.endsWith('.') ? ascii.slice(0, -1) : ascii))
  if (!checked.ok) return rejectDomain(checked.reason)
  const domain = checked.host
  if (isFreeMailHost(domain)) return rejectDomain('free-mail host')
  if (isSocialHost(domain)) return rejectDomain('social host')
  if (getPublicSuffix(domain, { allowPrivateDomains: true }) === domain) return rejectDomain('public suffix')
  return { ok: true, key: domain, input: { domain } }
}

/** Repeatedly (`www.www.acme.no`), so that normalizing is idempotent; `www.com` is a domain of its own. */
function withoutWww(host: string): string {
  let start = 0
  while (host.startsWith('www.', start) && host.includes('.', start + 4)) start += 4
  return host.slice(start)
}

/**
 * Free-mail and social hosts, which do not identify a company. Maintained by hand, well-known ones only: a missing host
 * costs a wasted call, a wrong one costs a company its data. So names that are also the address of a
 * sizeable company (`sky.com`, `github.com`) are left out.
 *
 * First the brands with a host in many countries: `yahoo.com`, `yahoo.no`, `yahoo.co.uk`, `yahoo.com.br`.
 */
const FREE_MAIL_BRANDS =
  'yahoo|hotmail|live|outlook|msn|gmx|yandex|googlemail|rocketmail|ymail|protonmail|zohomail|aol'
/** Except country codes sold as words, where the brand is another company's: `live.io`, `outlook.ai`. */
const FREE_MAIL_COUNTRY_VARIANT = new RegExp(
  String.raw`^(?:${FREE_MAIL_BRANDS})\.(?:com|net|org|(?:com?\.)?(?!(?:ai|co|fm|gg|io|ly|me|so|tv|vc)$)[a-z]{2})$`,
)

const FREE_MAIL_HOSTS = parseHosts(`
    # Worldwide
    gmail.com icloud.com me.com mac.com proton.me pm.me mail.com email.com fastmail.com fastmail.fm
    hey.com duck.com hushmail.com tutanota.com tutanota.de tuta.io tuta.com mailfence.com posteo.de
    posteo.net mailbox.org runbox.com inbox.com usa.com aim.com juno.com netzero.net lycos.com excite.com
      zoho.in privaterelay.appleid.com simplelogin.com windowslive.com 
    gmx.us email.it
    # Access providers of North America
    comcast.net verizon.net att.net sbcglobal.net bellsouth.net ameritech.net pacbell.net cox.net
    charter.net earthlink.net optonline.net roadrunner.com rr.com mindspring.com frontiernet.net
    windstream.net centurylink.net q.com shaw.ca sympatico.ca telus.net videotron.ca
    # Britain, Ireland, Oceania
    btinternet.com btopenworld.com virginmedia.com ntlworld.com blueyonder.co.uk talktalk.net tiscali.co.uk
    plusnet.com eircom.net bigpond.com bigpond.net.au optusnet.com.au iinet.net.au xtra.co.nz
    # France, Belgium, Netherlands, Luxembourg
    orange.fr wanadoo.fr free.fr laposte.net sfr.fr neuf.fr bbox.fr numericable.fr club-internet.fr
    skynet.be telenet.be ziggo.nl planet.nl hetnet.nl home.nl kpnmail.nl xs4all.nl chello.nl casema.nl
    upcmail.nl pt.lu
    # Germany, Austria, Switzerland
    web.de t-online.de freenet.de arcor.de online.de chello.at aon.at bluewin.ch hispeed.ch 
    # The Nordic countries
    online.no frisurf.no broadpark.no getmail.no lyse.net bredband.net spray.se
    comhem.se mail.dk jubii.dk stofanet.dk kolumbus.fi elisanet.fi luukku.com simnet.is
    # Southern Europe
    libero.it virgilio.it tiscali.it alice.it tin.it fastwebnet.it inwind.it telefonica.net terra.es
    sapo.pt otenet.gr 
    # Eastern Europe
    mail.ru bk.ru list.ru inbox.ru internet.ru rambler.ru ya.ru ukr.net i.ua meta.ua bigmir.net wp.pl o2.pl
    onet.pl onet.eu op.pl interia.pl interia.eu poczta.fm gazeta.pl vp.pl seznam.cz email.cz centrum.cz
    post.cz volny.cz azet.sk zoznam.sk freemail.hu citromail.hu abv.bg mail.bg inbox.lv mail.ee net.hr
    # Latin America
    terra.com.br uol.com.br bol.com.br ig.com.br globomail.com prodigy.net.mx fibertel.com.ar
    # Asia
    qq.com foxmail.com 163.com 126.com yeah.net sina.com sina.cn sohu.com 139.com 189.cn tom.com naver.com
    hanmail.net daum.net nate.com docomo.ne.jp ezweb.ne.jp softbank.ne.jp nifty.com rediffmail.com
    rediff.com walla.co.il 
    # Thrown away after one use
    mailinator.com guerrillamail.com yopmail.com 10minutemail.com trashmail.com sharklasers.com
`)

const SOCIAL_HOSTS = parseHosts(`
    facebook.com fb.com fb.me messenger.com instagram.com instagr.am threads.net threads.com linkedin.com
    lnkd.in twitter.com x.com t.co bsky.app bsky.social mastodon.social youtube.com youtu.be vimeo.com
    twitch.tv tiktok.com snapchat.com pinterest.com pin.it reddit.com tumblr.com medium.com quora.com
    flickr.com behance.net dribbble.com xing.com whatsapp.com wa.me t.me telegram.me telegram.org
    discord.com discord.gg wechat.com vk.com ok.ru weibo.com line.me kakao.com slideshare.net soundcloud.com
    linktr.ee about.me bit.ly goo.gl g.page maps.google.com plus.google.com sites.google.com business.site
`)

/** Where only the country differs: `pinterest.co.uk`. */
const SOCIAL_COUNTRY_VARIANT = /^pinterest\.(?:com?\.)?[a-z]{2}$/

/** Whether this host, or a parent of it, gives email addresses to the public. Expects lower-case A-labels. */
function isFreeMailHost(host: string): boolean {
  return listParentHosts(host).some(
    (name) => FREE_MAIL_HOSTS.has(name) || FREE_MAIL_COUNTRY_VARIANT.test(name),
  )
}

/** Whether this host, or a parent of it (`no.linkedin.com`), hosts pages of the public. */
function isSocialHost(host: string): boolean {
  return listParentHosts(host).some((name) => SOCIAL_HOSTS.has(name) || SOCIAL_COUNTRY_VARIANT.test(name))
}

/** `a.b.c.no` → `a.b.c.no`, `b.c.no`, `c.no`; no name on the lists is shorter than two labels. */
function listParentHosts(host: string): string[] {
  const labels = host.split('.')
  return labels.slice(0, -1).map((_, from) => labels.slice(from).join('.'))
}

/** One host per word; lines that start with # are headings. */
function parseHosts(text: string): ReadonlySet<string> {
  return new Set(
    text
      .replaceAll(/^ *#.*$/gm, '')
      .trim()
      .split(/\s+/),
  )
}

/** RFC 5321 sections 4.5.3.1.1 and 4.5.3.1.3 (a path of 256 octets has its angle brackets). */
const MAX_LOCAL_PART_LENGTH = 64
const MAX_ADDRESS_LENGTH = 254

/** The characters of a dot-atom, RFC 5322 section 3.2.3. */
const DOT_ATOM = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+$/

const rejectEmail = (reason: string) => ({ ok: false, reason, input: 'email' }) as const

/**
 * Normalizes one email address: trimmed, in lower case, its host in A-label form. Tags after a plus are kept: only the
 * mailbox host knows what they mean. A quoted local part (`"a b"@c.no`) is rejected although RFC 5321
 * allows it: in a CRM it is nearly always a typing error, and it would put white space into a key.
 */
export function normalizeEmail(raw: string | null): NormalizedInput<{ email: string }> {
  const text = trimBlank(raw ?? '')
  if (text === '') return null
  const marks = describeNonAddress(text)
  if (marks !== null) return rejectEmail(marks)

  const at = text.indexOf('@')
  const local = text.slice(0, at)
  if (local === '') return rejectEmail('nothing before the @')
  if (local.startsWith('"')) return rejectEmail('quoted local part')
  // Before lower-casing, which turns a few non-ASCII characters (the Kelvin sign) into letters.
  if (!DOT_ATOM.test(local)) return rejectEmail('local part with a character that is not allowed')
  if (local.startsWith('.') || local.endsWith('.') || local.includes('..'))
    return rejectEmail('local part with a stray dot')
  if (local.length > MAX_LOCAL_PART_LENGTH) return rejectEmail('local part over 64 characters')

  const rest = text.slice(at + 1)
  if (rest.startsWith('[')) return rejectEmail('IP address')
  const host = toAsciiHost(rest)
  if (host === null) return rejectEmail('host with a character that is not allowed')
  const checked = checkHost(host)
  if (!checked.ok) return rejectEmail(checked.reason)
  const email = `${local.toLowerCase()}@${host}`
  if (email.length > MAX_ADDRESS_LENGTH) return rejectEmail('over 254 characters')
  return { ok: true, key: email, input: { email } }
}

/** Describes a text that is evidently not one bare address; null if it may be one. */
function describeNonAddress(text: string): string | null {
  if (/^mailto:/i.test(text)) return 'mailto: link'
  const first = text.indexOf('@')
  if (first === -1) return 'no @'
  if (/[,;]/.test(text)) return 'list of addresses'
  if (/[<>]/.test(text)) return 'address with a display name'
  if (text.includes('@', first + 1)) return /[\s/|&]/.test(text) ? 'list of addresses' : 'more than one @'
  if (/\s/.test(text)) return 'white space inside'
  return null
}

const MAX_PROFILE_URL_LENGTH = 4096
/** LinkedIn allows 100 for a chosen name; older ones with non-ASCII characters are longer. */
const MAX_SLUG_LENGTH = 200

/** Never in a slug: white space, control characters, lone surrogates, and delimiters of URLs and lists. */
const FORBIDDEN_IN_SLUG = /[\s\p{Cc}\p{Cs}%/\\?#<>",;:@]/u

/** Identifiers generated by LinkedIn, and by its Sales Navigator (`ACwA`), are base64 and case-sensitive; chosen names are not. */
const GENERATED_SLUG = /^AC[ow]A[\w-]{20,}$/

const COMPANY_PAGES: ReadonlySet<string> = new Set(['company', 'school', 'showcase', 'organization'])

const rejectProfileUrl = (reason: string) => ({ ok: false, reason, input: 'linkedin_url' }) as const

/**
 * Normalizes the URL of a personal profile, `linkedin.com/in/<slug>`, with any scheme, host prefix (`no.`, `www.`, `m.`),
 * case, port, query or sub-page. Compared by the slug, decoded and, unless it is generated, in lower
 * case; sent as the canonical URL.
 */
export function normalizeProfileUrl(raw: string | null): NormalizedInput<{ linkedin_url: string }> {
  const text = trimBlank(raw ?? '')
  if (text === '') return null
  if (text.length > MAX_PROFILE_URL_LENGTH) return rejectProfileUrl('over 4,096 characters')
  if (/\s/.test(text)) return rejectProfileUrl('white space inside')
  const { hasScheme, authority, path } = splitUrl(text)
  const host = stripPort(authority).toLowerCase()
  if (!isLinkedInHost(host)) return rejectProfileUrl(describeOtherHost(hasScheme, host))

  const [section, encoded] = path.split('/').filter((segment) => segment !== '')
  if (section === undefined) return rejectProfileUrl('no profile in the address')
  if (COMPANY_PAGES.has(section.toLowerCase())) return rejectProfileUrl('company page')
  if (section.toLowerCase() !== 'in') return rejectProfileUrl('not a profile page')
  if (encoded === undefined) return rejectProfileUrl('no profile in the address')

  const typed = decodeSlug(encoded)
  if (typed === null) return rejectProfileUrl('broken percent-encoding')
  // Composed before it is checked: NFC turns U+037E into a semicolon.
  let slug = trimBlank(typed.normalize('NFC'))
  // The full stop of a sentence: a name has letters, digits and hyphens.
  while (slug.endsWith('.')) slug = trimBlank(slug.slice(0, -1))
  if (FORBIDDEN_IN_SLUG.test(slug))
    return rejectProfileUrl('profile name with a character that is not allowed')
  if (!/[\p{L}\p{N}]/u.test(slug)) return rejectProfileUrl('no profile in the address')
  if (slug.length > MAX_SLUG_LENGTH) return rejectProfileUrl('profile name over 200 characters')
  const identity = GENERATED_SLUG.test(slug) ? slug : slug.toLowerCase().normalize('NFC')
  return {
    ok: true,
    key: `linkedin.com/in/${identity}`,
    input: { linkedin_url: `https://www.linkedin.com/in/${encodeURIComponent(identity)}` },
  }
}

function isLinkedInHost(host: string): boolean {
  return host === 'linkedin.com' || /^(?:[a-z0-9-]{1,63}\.){1,4}linkedin\.com$/.test(host)
}

function describeOtherHost(hasScheme: boolean, host: string): string {
  if (host.includes('@') && host.includes('.') && !hasScheme) return 'email address'
  return hasScheme || host.includes('.') ? 'not a linkedin.com address' : 'bare handle'
}

function decodeSlug(encoded: string): string | null {
  try {
    return decodeURIComponent(encoded)
  } catch {
    return null
  }
}
