/**
 * What `import 'fillrate'` gives: the configuration's types, and the service's client and the webhook's signature for
 * use on their own.
 */
export { defineConfig } from './config/define.ts'
export { EnrichmentClient } from './service/client.ts'
export type {
  Answer,
  BulkAnswer,
  BulkInput,
  CallOptions,
  ClientOptions,
  CompanyInput,
  PersonInput,
} from './service/client.ts'
export * from './service/errors.ts'
export type { AuthStyle } from './service/auth.ts'
export type { CallObserver } from './service/call.ts'
export { signWebhook, verifyWebhook } from './webhook/signature.ts'
