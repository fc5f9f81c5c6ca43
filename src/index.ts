/**
 * The public API, `import 'fillrate'`: the configuration's types, descriptions of services, and Fillrate for programs with
 * their own scheduler.
 */
export { defineConfig, type ConfigInput } from './config/define.ts'
export {
  defineService,
  type CompanyInput,
  type PersonInput,
  type ServiceDefinition,
  type ServiceReading,
  type StatusMeaning,
} from './domain/service/adapter.ts'
export type { ServiceAuth } from './domain/service/auth.ts'
export {
  type BulkInput,
  type BulkReading,
  type GivenInputs,
  type JobInput,
  type JobInputs,
  type JobReading,
  type ServiceAnswer,
  type ServiceDelivery,
  type ServiceFailure,
} from './domain/service/messages.ts'
export { testService, type DeliveryCase, type ServiceCase } from './actions/service-cases.ts'
export { createFillrate } from './fillrate.ts'
export type { Fillrate, FillrateOptions, PassOptions, RunOptions, StartOptions } from './fillrate.ts'
export { ConfigProblems } from './config/problems.ts'
export { SourceProblems } from './sources/problems.ts'
export { SchemaMissingError } from './store/schema-errors.ts'
export type { RowHistory } from './domain/report/explain.ts'
export type { Plan } from './domain/report/plan.ts'
export type { RunReport } from './domain/report/run.ts'
export type { RunProgress } from './runs/counters.ts'
export type { UndoReport } from './actions/undo/undo.ts'
