import type { Environment } from '../../config/environment.ts'
import { CLOSING_MESSAGE, Exit, createParser, defineCommand, printAnswer } from '../command.ts'
import { portOption } from '../options.ts'
import { toWebhookPath } from '../../webhook/address.ts'
import { useApp } from '../settings.ts'
import type { Output } from '../terminal.ts'

export const serveCommand = defineCommand(
  createParser('serve')
    .summary('runs the webhook receiver, dashboard and metrics only')
    .description(
      'Receives the webhooks of bulk jobs until stopped, and writes their records back, so that a run need not wait ' +
        'for them. The dashboard is at /, the Prometheus metrics at /metrics.',
    )
    .addOption(portOption),
  {
    group: 'work',
    examples: [['fillrate serve --port 8080', 'then open http://127.0.0.1:8080/']],
    onInterrupt: CLOSING_MESSAGE,
    longLived: true,
    waitsForDatabase: true,

    async handler(call) {
      const { flags, stdout, signal } = call
      const { app, environment, config } = await useApp(call, { port: flags.port })
      const { publicUrl } = environment
      const describeDashboard = await createDashboardLine(environment, stdout)
      const describe = (address: string): string[] => [
        `Receiving webhooks at ${stdout.paint('type', `${address}/webhooks/${config.serviceNames.length === 0 ? toWebhookPath(null) : 'NAME'}`)} until stopped.`,
        describeDashboard(address),
      ]
      const elsewhere =
        'Another Fillrate process on this machine receives webhooks already; this one settles and writes back.'
      await app.serve({
        signal,
        onListening: (listens) =>
          printAnswer(call, {
            json: { listens, public_url: publicUrl },
            text: () => (listens === null ? [elsewhere] : describe(listens)),
          }),
      })
      return Exit.done
    },
  },
)

/** Returns a function that says where the dashboard is, or why it is closed. */
export async function createDashboardLine(
  { dashboardTokens: tokens, host, publicUrl }: Environment,
  { paint }: Output,
): Promise<(address: string) => string> {
  const { closedReason } = await import('../../http/auth.ts')
  const { DEFAULT_HOST } = await import('../../http/receiver.ts')
  const closed = closedReason({ tokens, host: host ?? DEFAULT_HOST, publicUrl })
  return (address) =>
    closed === null
      ? `The dashboard is at ${paint('type', `${address}/`)}`
      : `${paint('warn', 'The dashboard is closed:')} ${closed}.`
}
