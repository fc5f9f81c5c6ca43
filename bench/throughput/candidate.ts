/** What a candidate gets: a database to enrich and a service to call. */
export interface Task {
  readonly candidate: CandidateName
  readonly databaseUrl: string
  readonly service: { readonly url: string; readonly keys: readonly string[]; readonly webhookSecret: string }
  readonly concurrency: number
}

/** What a candidate measures itself. */
export interface Outcome {
  /** From the first connection to the last, without the start and the end of the process. Milliseconds. */
  readonly durationMs: number
  readonly statements: number
}

/** With what its process measures. */
export interface Measured extends Outcome {
  /** Peak memory of the process (resident set), in bytes. */
  readonly peakBytes: number
  /** CPU time of the process, including its start, in milliseconds. */
  readonly cpuMs: number
}

export const CANDIDATES = ['plain', 'graphile-worker', 'pg-boss', 'sync', 'bulk'] as const
export type CandidateName = (typeof CANDIDATES)[number]

export const TITLES: Readonly<Record<CandidateName, string>> = {
  plain: 'plain script',
  'graphile-worker': 'graphile-worker, a row a job',
  'pg-boss': 'pg-boss, a row a job',
  sync: 'Fillrate `--route sync`',
  bulk: 'Fillrate `--route bulk`',
}
