import { createServer, connect, type Socket } from 'node:net'

/** A TCP proxy between a process and Postgres. */
export interface Proxy {
  readonly port: number
  /**
   * Freezes the open connections: nothing is closed on the client's side, and nothing comes through. Postgres's side is
   * closed, as it would notice by itself in time. New connections work.
   */
  freeze(): void
  close(): Promise<void>
}

export async function startProxy(target: number): Promise<Proxy> {
  const pairs = new Set<readonly [Socket, Socket]>()
  const silent = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1')
    const pair = [client, upstream] as const
    pairs.add(pair)
    for (const [from, to] of [pair, [upstream, client] as const]) {
      from.on('error', () => {})
      from.on('close', () => to.destroy())
      from.pipe(to)
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  return {
    port: typeof address === 'object' && address ? address.port : 0,
    freeze: () => {
      for (const [client, upstream] of pairs) {
        upstream.removeAllListeners('close')
        client.unpipe(upstream)
        client.pause()
        upstream.unpipe(client)
        upstream.destroy()
        silent.add(client)
      }
      pairs.clear()
    },
    close: async () => {
      for (const client of [...silent, ...[...pairs].map(([one]) => one)]) client.destroy()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}
