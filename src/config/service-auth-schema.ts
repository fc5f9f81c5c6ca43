import { z } from 'zod'
import { objectOf, objectLike, oneOfStrings } from './primitives.ts'
import { SIGNATURE_ALGORITHMS, SIGNATURE_ENCODINGS } from '../domain/service/adapter.ts'
import { isLoopbackUrl } from '../util/url.ts'

const HEADER_NAME = /^[!#$%&'*+.^_`|~\w-]+$/
const EXPECTED_HEADER = "a header's name, such as 'x-api-key'"
const headerName = z.string({ error: EXPECTED_HEADER }).regex(HEADER_NAME, { error: EXPECTED_HEADER })
const EXPECTED_AUTH =
  "'bearer', 'basic', { header: 'x-api-key' }, { query: 'api_key' } or { oauth: { tokenUrl: '/oauth/token' } }"

const EXPECTED_TOKEN_URL =
  "an https address, such as 'https://auth.example.com/oauth/token', or a path below the base URL, such as '/oauth/token'"
/** RFC 6749, section 3.2: credentials are sent in clear text, so the endpoint requires TLS; its address has no fragment. */
const tokenUrl = z.string({ error: EXPECTED_TOKEN_URL }).refine(
  (text) => {
    if (/^\/[^/\s#][^\s#]*$/.test(text)) return true
    const { protocol, username, password, hash } = URL.parse(text) ?? {}
    const isSafe = protocol === 'https:' || (protocol === 'http:' && isLoopbackUrl(text))
    return isSafe && username === '' && password === '' && hash === ''
  },
  { error: EXPECTED_TOKEN_URL, params: { found: 'a text that is none (not shown)' } },
)

const EXPECTED_VARIABLE = "the name of an environment variable, such as 'ACME_APP_ID'"
const EXPECTED_VALUE = "a text, or { env: 'ACME_APP_ID' } for a secret in the environment"
/** Headers of every request. */
export const sentHeaders = z
  .record(
    headerName,
    z.union(
      [
        z.string(),
        objectOf({
          env: z.string({ error: EXPECTED_VARIABLE }).regex(/^[A-Za-z_]\w*$/, { error: EXPECTED_VARIABLE }),
        }),
      ],
      { error: EXPECTED_VALUE },
    ),
    { error: objectLike("{ accept: 'application/json' }") },
  )
  .optional()

const EXPECTED_NAME = 'a name'
const parameterName = z.string({ error: EXPECTED_NAME }).min(1, { error: EXPECTED_NAME })

/** How the key is sent, or exchanged for a token. */
export const serviceAuth = z.union(
  [
    z.enum(['bearer', 'basic'], { error: EXPECTED_AUTH }),
    objectOf({ header: headerName, prefix: z.string().optional() }),
    objectOf({ query: parameterName }),
    objectOf({
      oauth: objectOf(
        {
          tokenUrl,
        },
        "{ tokenUrl: '/oauth/token' }",
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
    objectOf({
      header: headerName,
      algorithm: oneOfStrings(SIGNATURE_ALGORITHMS).optional(),
      encoding: oneOfStrings(SIGNATURE_ENCODINGS).optional(),
      prefix: z.string().optional(),
    }),
  ],
  { error: EXPECTED_SIGNATURE },
)
