import pg from 'pg'

interface Client {
  query: (...args: unknown[]) => unknown
}

/**
 * Loses the answers of some commits, as a connection that breaks right after them does: the transaction is committed, and
 * the process gets a connection error.
 * @param writes matches a statement of the affected transactions, or one that is a transaction by itself
 * @returns how many are still to be lost, and a function that restores the driver
 */
export function loseCommits(writes: RegExp, times: number): { readonly left: () => number; end(): void } {
  const client = pg.Client.prototype as unknown as Client
  const { query } = client
  const open = new WeakSet<object>()
  const writing = new WeakSet<object>()
  let left = times
  client.query = function send(this: object, ...args: unknown[]): unknown {
    const [first] = args
    const text =
      typeof first === 'string' ? first : String((first as { text?: string } | undefined)?.text ?? '')
    const verb = text.trim().toLowerCase()
    if (verb.startsWith('begin') || verb.startsWith('start transaction')) {
      writing.delete(this)
      open.add(this)
    } else if (writes.test(text)) writing.add(this)
    const commits = verb === 'commit' || (!open.has(this) && writes.test(text))
    if (verb === 'commit' || verb === 'rollback') open.delete(this)
    const result = query.apply(this, args)
    if (!commits || left === 0 || !writing.has(this)) return result
    left--
    return (result as Promise<unknown>).then(() => {
      throw Object.assign(new Error('Connection terminated unexpectedly'), { code: 'ECONNRESET' })
    })
  }
  return {
    left: () => left,
    end: () => {
      client.query = query
    },
  }
}
