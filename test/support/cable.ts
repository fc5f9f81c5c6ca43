import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'

/** A loopback port that leads to another server, and that can be pulled and plugged in again as a cable. */
export class Cable {
  readonly #server: Server
  readonly #pairs = new Set<readonly [client: Socket, upstream: Socket]>()
  readonly #frozen = new Set<Socket>()
  port = 0

  /** @param target the URL of the server, or its port */
  constructor(target: string | number) {
    const targetPort = typeof target === 'number' ? target : Number(new URL(target).port)
    this.#server = createServer((client) => {
      const upstream = connect(targetPort, '127.0.0.1')
      const pair = [client, upstream] as const
      this.#pairs.add(pair)
      for (const [from, to] of [pair, [upstream, client] as const]) {
        from.on('error', () => {})
        from.on('close', () => {
          this.#pairs.delete(pair)
          to.destroy()
        })
        from.pipe(to)
      }
    })
  }

  /** The same URL through the cable. */
  through(url: string): string {
    return Object.assign(new URL(url), { host: `127.0.0.1:${this.port}` }).href
  }

  /** Plugs it in: at first on any port, then on the same one. */
  async plug(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(this.port, '127.0.0.1', resolve))
    this.port = (this.#server.address() as AddressInfo).port
    return this
  }

  async pull(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve))
    for (const socket of [...this.#frozen, ...[...this.#pairs].flat()]) socket.destroy()
    await closed
  }

  /**
   * Freezes the open connections: nothing is closed on the client's side, and nothing comes through. The target's side is
   * closed, as it would notice by itself in time. New connections work.
   */
  freeze(): void {
    for (const [client, upstream] of this.#pairs) {
      upstream.removeAllListeners('close')
      client.unpipe(upstream)
      client.pause()
      upstream.unpipe(client)
      upstream.destroy()
      this.#frozen.add(client)
    }
    this.#pairs.clear()
  }
}
