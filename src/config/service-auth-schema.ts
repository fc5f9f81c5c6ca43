import { z } from 'zod'
import { SIGNATURE_ALGORITHMS, SIGNATURE_ENCODINGS } from '../domain/service/adapter.ts'
import { isLoopbackUrl } from '../util/url.ts'
import { objectLike, oneOfStrings } from './primitives.ts'

const HEADER_NAME = /^[!#$%&'*+.^_`|~\w-]+$/
const EXPECTED_HEADER = "a header's name, such as 'x-api-key'"
export const headerName = z.string({ error: EXPECTED_HEADER }).regex(HEADER_NAME, { error: EXPECTED_HEADER })
const EXPECTED_AUTH =
  "'bearer', 'basic', { header: 'x-api-key' }, { query: 'api_key' } or { oauth: { tokenUrl: '/oauth/token' } }"

const EXPECTED_TOKEN_URL =
  "an https address, such as 'https://auth.example.com/oauth/token', or a path below the base URL, such as '/oauth/token'"
/** RFC 6749, section 3.2: credentials are sent in clear text, so the endpoint requires TLS; its address has no fragment. */
const tokenUrl = z.string({ error: EXPECTED_TOKEN_URL }).superRefine((text, context) => {
  if (/^\/[^\s#]*$/.test(text) && !text.startsWith('//')) return
  const url = URL.parse(text)
  const isWeb = url !== null && /^https?:$/.test(url.protocol)
  const hasLogin = isWeb && (url.username !== '' || url.password !== '')
  const isOpen = isWeb && url.protocol === 'http:' && !isLoopbackUrl(text)
  if (isWeb && !hasLogin && !isOpen && url.hash === '') return
  context.addIssue({
    code: 'custom',
    message: EXPECTED_TOKEN_URL,
    ...(hasLogin && {
      params: {
        found: 'an address with a user name or a password (not shown)',
        todo: "Leave them out: the client's id and secret go into FILLRATE_API_KEY, as id:secret.",
      },
    }),
    ...(isOpen && { params: { todo: "Use https: the client's secret is sent there." } }),
  })
})

const EXPECTED_VARIABLE = "the name of an environment variable, such as 'ACME_APP_ID'"
const EXPECTED_VALUE = "a text, or { env: 'ACME_APP_ID' } for a secret in the environment"
/** Headers or parameters of every request. */
export const sentValues = (name: z.ZodString, example: string) =>
  z
    .record(
      name,
      z.union(
        [
          z.string(),
          z.strictObject({
            env: z.string({ error: EXPECTED_VARIABLE }).regex(/^[A-Za-z_]\w*$/, { error: EXPECTED_VARIABLE }),
          }),
        ],
        { error: EXPECTED_VALUE },
      ),
      { error: objectLike(example) },
    )
    .optional()

const EXPECTED_NAME = 'a name'
export const parameterName = z.string({ error: EXPECTED_NAME }).min(1, { error: EXPECTED_NAME })

/** How the key is sent, or exchanged for a token. */
export const serviceAuth = z.union(
  [
    z.enum(['bearer', 'basic'], { error: EXPECTED_AUTH }),
    z.strictObject({ header: headerName, prefix: z.string().optional() }),
    z.strictObject({ query: parameterName }),
    z.strictObject({
      oauth: z.strictObject(
        {
          tokenUrl,
        },
        { error: objectLike("{ tokenUrl: '/oauth/token' }") },
      ),
    }),
  ],
  { error: EXPECTED_AUTH },
)

const EXPECTED_SIGNATURE =
  "an object such as { header: 'x-signature', algorithm: 'sha256', encoding: 'hex' }, or 'none' for deliveries without one"

/** How deliveries are signed, if they are. */
export const deliverySignature = z.union(
  [
    z.literal('none', { error: EXPECTED_SIGNATURE }),
    z.strictObject({
      header: headerName,
      algorithm: oneOfStrings(SIGNATURE_ALGORITHMS).optional(),
      encoding: oneOfStrings(SIGNATURE_ENCODINGS).optional(),
      prefix: z.string().optional(),
    }),
  ],
  { error: EXPECTED_SIGNATURE },
)
