import { setTimeout as sleep } from 'node:timers/promises'
import type { StatusReport } from '../../src/actions/status.ts'
import type { FillrateNotification } from '../../src/domain/notification.ts'
import type { ConditionKind } from '../../src/domain/condition.ts'
import type { CommandLine, Started } from './cli.ts'
import { type LoopbackService, startLoopback } from './loopback.ts'

// What an operator sees of the conditions of processes: each channel is read all the time, from where operators read it.

export interface LogLine {
  readonly level: string
  readonly time: string
  readonly event: string
  readonly kind?: string
  readonly service?: string | null
  readonly source?: string | null
  /** A line about a run is about no other. */
  readonly run?: number
  readonly msg: string
}

/** A started process, and what it prints. */
export function watchProcess({ child, ended }: Started) {
  let text = ''
  const ready = Promise.withResolvers<void>()
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (part: string) => {
      text += part
      // A daemon has loaded its configuration a moment later.
      if (/"follows"|"bulk"/.test(text)) ready.resolve()
    })
  const objects = () =>
    text
      .split('\n')
      .filter((line) => line.startsWith('{') && line.endsWith('}'))
      .map((line) => JSON.parse(line) as Record<string, unknown>)
  return {
    child,
    ended,
    ready: ready.promise,
    text: () => text,
    objects,
    log: () => objects().filter((one) => 'event' in one) as unknown as LogLine[],
    /** Where it listens; null: not yet. */
    url: () => (objects().find((one) => 'listens' in one)?.['listens'] ?? null) as string | null,
  }
}
export type WatchedProcess = ReturnType<typeof watchProcess>

/** Kinds of warnings and errors of a process of which two came within a minute. */
export function listRepeatedLines(lines: readonly LogLine[]): string[] {
  const seen = new Map<string, number[]>()
  for (const { level, event, kind: of = '', service, source, run = '', time } of lines) {
    if (level === 'info') continue
    const kind = [level, event, of, service ?? '', source ?? '', run].join(' ').trim()
    seen.set(kind, [...(seen.get(kind) ?? []), Date.parse(time)])
  }
  return [...seen]
    .map(([kind, times]) => ({
      kind,
      repeats: times.filter((at, index) => at - (times[index - 1] ?? Number.NEGATIVE_INFINITY) < 60_000)
        .length,
    }))
    .filter(({ repeats }) => repeats > 0)
    .map(({ kind, repeats }) => `${kind}: ${repeats} times again`)
}

/** Something that is told of conditions: `open` are those whose end it has not been told. */
class Target {
  readonly received: { readonly isEnd: boolean; readonly title: string }[] = []
  readonly #read: (body: unknown) => { readonly isEnd: boolean; readonly title: string }
  #service: LoopbackService | null = null

  constructor(read: (body: unknown) => { readonly isEnd: boolean; readonly title: string }) {
    this.#read = read
  }

  async listen(): Promise<string> {
    this.#service = await startLoopback(({ body }, response) => {
      this.received.push(this.#read(JSON.parse(body)))
      response.end()
    })
    return `${this.#service.url}/`
  }

  close(): void {
    void this.#service?.close()
  }
}

/** The conditions that the channels of one process or target show, or its error. */
export type Sight = readonly string[]

interface Expected {
  readonly kind: ConditionKind
  readonly title: RegExp
}

/** A test that fails says what was seen instead. */
const LONGEST_MS = 250_000

export class OperatorView {
  readonly processes: WatchedProcess[] = []
  readonly targets = [
    new Target((body) => {
      const { event, title } = body as FillrateNotification
      return { isEnd: event === 'condition_ended', title }
    }),
    new Target((body) => {
      const { text } = body as { text: string }
      return { isEnd: text.startsWith(':white_check_mark:'), title: text }
    }),
  ]
  /** All that was seen of any condition but the expected one. */
  readonly strange = new Set<string>()
  readonly #cli: CommandLine
  readonly #stopped = new AbortController()
  #expected: Expected | null = null
  #status: Sight = []
  /** How many each target had received before. */
  #noticesFrom: number[] = []
  readonly #loop: Promise<void>

  constructor(cli: CommandLine) {
    this.#cli = cli
    this.#loop = this.#readStatus()
  }

  async close(): Promise<void> {
    this.#stopped.abort()
    await this.#loop
    for (const target of this.targets) target.close()
  }

  /** Waits until each channel shows this condition, or none any more. @returns seconds since `at`, by channel */
  async measure(expected: Expected, isOver: boolean, at: number): Promise<ReadonlyMap<string, string>> {
    this.#expected = expected
    if (!isOver) this.#noticesFrom = this.targets.map(({ received }) => received.length)
    const seconds = new Map<string, string>()
    const wanted = isOver ? '' : expected.kind
    while (!this.#stopped.signal.aborted) {
      const sights = await this.read()
      for (const [channel, shown] of Object.entries(sights)) {
        for (const one of shown.flat()) if (one !== expected.kind) this.strange.add(`${channel}: ${one}`)
        if (!seconds.has(channel) && shown.every((one) => one.join() === wanted))
          seconds.set(channel, ((Date.now() - at) / 1_000).toFixed(1))
      }
      if (seconds.size === Object.keys(sights).length) break
      if (Date.now() - at > LONGEST_MS)
        throw new Error(`${expected.kind}, over ${isOver}: ${JSON.stringify([...seconds, sights])}`)
      await sleep(200)
    }
    return seconds
  }

  /** What is open now, by channel: of each process, or of each target. */
  async read(): Promise<Readonly<Record<string, Sight[]>>> {
    const urls = this.processes.flatMap((one) =>
      one.child.exitCode === null && one.url() !== null ? [one.url()] : [],
    )
    return {
      page: await Promise.all(urls.map(async (url) => this.#readPage(await fetchText(`${url}/`)))),
      status: [this.#status],
      metrics: await Promise.all(urls.map(async (url) => readMetrics(await fetchText(`${url}/metrics`)))),
      log: [this.#readLog()],
      notifications: this.targets.map(({ received }, index) =>
        this.#readNotices(received.slice(this.#noticesFrom[index])),
      ),
    }
  }

  #toCode(title: string): string {
    return this.#expected?.title.test(title) ? this.#expected.kind : title
  }

  #readPage(text: string): Sight {
    const verdict = /<section id="verdict"[\s\S]*?<\/section>/.exec(text)?.[0] ?? ''
    // Without its data, the page is the condition.
    if (verdict === '') return [this.#toCode(text)]
    return [...verdict.matchAll(/<div class="condition [\s\S]*?class="headline">([\s\S]*?)<\/p>/g)].map(
      (one) => this.#toCode(one[1] ?? ''),
    )
  }

  /** What a process knows alone it logs itself, so several may have logged the same. */
  #readLog(): Sight {
    const open = new Set<string>()
    const lines = this.processes.flatMap((one, index) => one.log().map((line) => ({ ...line, index })))
    for (const { event, kind = '', index } of lines.toSorted((a, b) => a.time.localeCompare(b.time))) {
      const isOwn = kind === 'database_away'
      if (event === 'condition_began') open.add(`${kind} ${isOwn ? index : ''}`)
      if (event !== 'condition_ended') continue
      open.delete(`${kind} ${isOwn ? index : ''}`)
      // What a process knew that has ended since, another one has the last word of.
      for (const [other, { child }] of this.processes.entries())
        if (child.exitCode !== null) open.delete(`${kind} ${other}`)
    }
    return [...new Set([...open].map((one) => one.split(' ')[0] ?? ''))]
  }

  #readNotices(received: Target['received']): Sight {
    const open = new Map<string, number>()
    for (const { isEnd, title } of received) {
      const code = this.#toCode(title)
      open.set(code, (open.get(code) ?? 0) + (isEnd ? -1 : 1))
    }
    return [...open].flatMap(([code, count]) => Array<string>(Math.abs(count)).fill(code))
  }

  /** `fillrate status --json`, again and again. */
  async #readStatus(): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      const { stdout } = await this.#cli.run('status', '--json')
      const report = JSON.parse(stdout) as Partial<StatusReport>
      // Without Postgres it has no report, and says so.
      this.#status =
        report.conditions?.map(({ kind }) => kind) ??
        (/problem in the database/.test(stdout) ? ['database_away'] : [stdout])
      await sleep(1_000, undefined, { signal: this.#stopped.signal }).catch(() => {})
    }
  }
}

const fetchText = async (url: string): Promise<string> =>
  fetch(url, { headers: { accept: 'text/html' } }).then(
    (answer) => answer.text(),
    (error: unknown) => String(error),
  )

/** While Postgres is away, one metric says so, and all that is read there is missing. */
const readMetrics = (text: string): Sight =>
  /^fillrate_database_up 0$/m.test(text)
    ? ['database_away']
    : [
        ...new Set(
          [...text.matchAll(/^fillrate_condition\{[^}]*kind="(\w+)"[^}]*\} 1$/gm)].map((one) => one[1] ?? ''),
        ),
      ]
