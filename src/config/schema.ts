import { createInputSchema } from './input-schema.ts'
import type { ConfiguredService } from './turns.ts'
import { resolveConfig } from './resolve.ts'

/**
 * A configuration file: `ConfigInput` in; out, checked and with every default, what the program works with.
 * @param options.isOpen it may name any service, as the JSON Schema of editors has it
 */
export const createConfigSchema = (
  services: readonly ConfiguredService[],
  { isOpen }: { readonly isOpen: boolean } = { isOpen: false },
) => createInputSchema({ services, isOpen }).transform((parsed) => resolveConfig(parsed, services))

export type ConfigSchema = ReturnType<typeof createConfigSchema>
