import { createHmac, timingSafeEqual } from 'node:crypto'

/** A SHA-256 in base64url. */
const JOB_TOKEN = /^[\w-]{43}$/

/** Signed with it, so that nothing else that is signed with the secret is a token. */
const PURPOSE = 'fillrate webhook address\n'

/** The last part of the address for deliveries of a service. @param name null: it is the only one */
export const toWebhookPath = (name: string | null): string => name ?? 'enrichment'

/** Where the service delivers the results of a job. */
interface JobAddress {
  readonly publicUrl: string
  /** The name of the service, of several. */
  readonly service?: string | null
  readonly job: string
  /** Newest first. */
  readonly secrets: readonly string[]
}

/**
 * The address for the deliveries of a job. Where the service signs nothing it ends with a token, an HMAC of the job's key:
 * each job has its own, and none is stored.
 * @throws TypeError if there is no secret to make the token with
 */
export function toJobAddress(
  { publicUrl, service = null, job, secrets }: JobAddress,
  { signature }: { readonly signature: object | 'none' },
): string {
  const address = `${publicUrl}/webhooks/${toWebhookPath(service)}/${job}`
  if (signature !== 'none') return address
  const [newest] = secrets
  if (newest === undefined) throw new TypeError('no webhook secret: expected one (FILLRATE_WEBHOOK_SECRET)')
  return `${address}/${computeToken(job, newest).toString('base64url')}`
}

/** Whether a text has the form of a token; if not, the body need not be read. */
export const isWellFormedToken = (token: string | null): boolean => token !== null && JOB_TOKEN.test(token)

/** Whether a token was made for this job with one of the secrets. All are tried, each in constant time. */
export function verifyJobAddress(
  job: string | null,
  token: string | null,
  secrets: readonly string[],
): boolean {
  if (job === null || token === null || !isWellFormedToken(token)) return false
  const claimed = Buffer.from(token, 'base64url')
  let matches = 0
  // An empty secret is known to everyone.
  for (const secret of secrets)
    matches |= Number(secret !== '' && timingSafeEqual(computeToken(job, secret), claimed))
  return matches === 1
}

const computeToken = (job: string, secret: string): Buffer =>
  createHmac('sha256', secret).update(PURPOSE).update(job.toLowerCase()).digest()
