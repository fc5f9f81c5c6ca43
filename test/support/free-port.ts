import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/** Below the ports that a system gives to outgoing connections and to whoever listens on port 0. */
const [FROM, TO] = [15_000, 32_000]

/**
 * A port of loopback that nobody listens on at this moment. Not one that the system would choose: it would give the
 * same to another test before this one is used.
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
