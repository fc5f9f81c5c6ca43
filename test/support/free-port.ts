import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/** Below the ports that a system assigns to outgoing connections and to listeners on port 0. */
const [FROM, TO] = [15_000, 32_000]

/**
 * Finds a loopback port without a listener. Not one that the system would assign: another test could get the same one
 * before this one is used.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FROM, TO)
    if (await isFree(port)) return port
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
