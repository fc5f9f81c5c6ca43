/** What help says of each variable of the environment; a test holds the names against what is read. */
export const ENVIRONMENT = {
  DATABASE_URL: 'the CRM database, postgres://user:password@host/name',
  FILLRATE_BASE_URL: 'the address of the enrichment service',
  FILLRATE_API_KEY: 'its key, or several with commas, newest first',
  FILLRATE_AUTH: 'bearer (default), x-api-key, basic or query',
  FILLRATE_WEBHOOK_SECRET: 'what it signs deliveries with, or several',
  FILLRATE_PUBLIC_URL: 'where it reaches the receiver; without it, no bulk',
  FILLRATE_PORT: 'the port of the receiver; default: any free one',
  FILLRATE_HOST: 'where the receiver listens; default: 127.0.0.1',
  FILLRATE_DASHBOARD_TOKEN: 'opens dashboard and metrics; a must off loopback',
  FILLRATE_NOTIFY_URL: 'whom to tell of runs, where `notify` names no url',
  FILLRATE_NOTIFY_SECRET: 'what notifications are signed with',
  LOG_LEVEL: 'trace, debug, info, warn, error, fatal or silent',
  HTTPS_PROXY: 'a proxy that leads to the service',
  HTTP_PROXY: 'the same for addresses without TLS',
  NO_PROXY: 'hosts that need no proxy',
  NO_COLOR: 'anything: no colours',
} as const satisfies Readonly<Record<string, string>>

export type Variable = keyof typeof ENVIRONMENT

/** What a command reads that needs the database, that calls the service, or that receives deliveries. */
export const DATABASE = ['DATABASE_URL'] as const
export const SERVICE = ['DATABASE_URL', 'FILLRATE_BASE_URL', 'FILLRATE_API_KEY', 'FILLRATE_AUTH'] as const
export const RECEIVER = [
  'FILLRATE_WEBHOOK_SECRET',
  'FILLRATE_PUBLIC_URL',
  'FILLRATE_PORT',
  'FILLRATE_HOST',
] as const
