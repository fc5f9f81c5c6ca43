/**
 * What `import 'fillrate'` gives: the configuration's types, Fillrate for a program with a scheduler of its own, and the
 * service's client and the webhook's signature for use on their own.
 */
export { defineConfig, type ConfigInput } from './config/define.ts'
export { createFillrate } from './library.ts'
export type { Fillrate, FillrateOptions, PassOptions, RunOptions, StartOptions } from './library.ts'
export { ConfigProblems } from './config/problems.ts'
export type { Story } from './pipeline/explain/story.ts'
export type { Plan } from './pipeline/plan.ts'
export type { RunProgress } from './pipeline/run/progress.ts'
export type { RunReport } from './pipeline/run/report.ts'
export type { UndoReport } from './pipeline/undo/report.ts'
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
