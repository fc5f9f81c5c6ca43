/** What a contender is given: a database to enrich and a service to ask. */
export interface Task {
  readonly contender: ContenderName
  readonly databaseUrl: string
  readonly service: { readonly url: string; readonly keys: readonly string[]; readonly webhookSecret: string }
  readonly concurrency: number
}

/** What a contender can tell about itself. */
export interface Outcome {
  /** From the first connection to the last, the start of the process left out. Milliseconds. */
  readonly durationMs: number
  readonly statements: number
}

/** And what its process adds. */
export interface Measured extends Outcome {
  /** The most memory that the process ever held (resident set), in bytes. */
  readonly peakBytes: number
  /** Processor time of the process, its start included, in milliseconds. */
  readonly cpuMs: number
}

export const contenderNames = ['plain', 'sync', 'bulk'] as const
export type ContenderName = (typeof contenderNames)[number]

export const titles: Readonly<Record<ContenderName, string>> = {
  plain: 'plain script',
  sync: 'Fillrate `--route sync`',
  bulk: 'Fillrate `--route bulk`',
}
