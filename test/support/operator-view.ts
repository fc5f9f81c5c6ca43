import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import type { StatusReport } from '../../src/domain/report/status.ts'
import type { Condition } from '../../src/domain/condition.ts'
import type { ReportedCondition } from '../../src/domain/report/status.ts'
import type { FillrateNotification } from '../../src/domain/report/notification.ts'
import type { CommandLine, Started } from './cli.ts'
import { type LoopbackService, startLoopback } from './loopback.ts'

// What an operator sees of the conditions of processes: each channel is read all the time, from where operators read it.

export interface LogLine extends Pick<Condition, 'kind' | 'service' | 'source'> {
  readonly level: string
  readonly time: string
  readonly event: string
  /** A line about a run is about no other. */
  readonly run?: number
  readonly msg: string
}

/** A started process, and what it prints. @param readyAt the field that it prints last of its start */
export function watchProcess({ child, ended }: Started, readyAt: 'follows' | 'public_url' = 'follows') {
  let text = ''
  const ready = Promise.withResolvers<void>()
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (part: string) => {
      text += part
      if (text.includes(`"${readyAt}"`)) ready.resolve()
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
    log: () => objects().filter((one) => 'event' in one) as unknown as LogLine[],
    /** Where it listens; null: not yet, or no more. */
    url: () =>
      child.exitCode === null
        ? ((objects().find((one) => 'listens' in one)?.['listens'] ?? null) as string | null)
        : null,
  }
}
export type WatchedProcess = ReturnType<typeof watchProcess>

/** Kinds of warnings and errors of a process of which two came within a minute. */
export function listRepeatedLines(lines: readonly LogLine[]): string[] {
  const seen = new Map<string, number[]>()
  for (const { level, event, kind: of = '', service, source, run = '', time, msg } of lines) {
    // Each outage may lose answers of its own.
    if (level === 'info' || event === 'calls_in_doubt') continue
    // Of Postgres another cause is another outage.
    const about = of === 'database_away' ? [msg] : [service, source]
    const kind = [level, event, of, ...about, run].join(' ')
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

/** The condition that a test has made: what it is about, and its title. */
export interface ExpectedCondition extends Pick<Condition, 'kind' | 'service' | 'source'> {
  readonly title: RegExp
}

interface Notice {
  readonly isEnd: boolean
  readonly title: string
  /** What it is about; null: its form has the title alone. */
  readonly id: string | null
}

/** A target of notifications. */
class Target {
  readonly received: Notice[] = []
  readonly #read: (body: unknown) => Notice
  #service: LoopbackService | null = null

  constructor(read: (body: unknown) => Notice) {
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

const readJsonNotice = (body: unknown): Notice => {
  const { event, title, condition } = body as FillrateNotification
  return { isEnd: event === 'condition_ended', title, id: condition ? conditionId(condition) : title }
}

const readSlackNotice = (body: unknown): Notice => {
  const { text } = body as { text: string }
  return { isEnd: text.startsWith(':white_check_mark:'), title: text, id: null }
}

/** The conditions that one process or target shows, each by its id, or its title where it is not the expected one. */
type Sight = readonly string[]

export const CHANNELS = ['page', 'status', 'metrics', 'log', 'notifications'] as const
export type Channel = (typeof CHANNELS)[number]

/** Only for a test that fails: it says what was seen instead. */
const LONGEST_MS = 240_000

/** What a condition is about: there is one open for each. */
const conditionId = ({
  kind,
  service,
  source,
}: Pick<ReportedCondition, 'kind' | 'service' | 'source'>): string =>
  [kind, service ?? '', source ?? ''].join(' ')

const AWAY = conditionId({ kind: 'database_away', service: null, source: null })

export class OperatorView {
  readonly processes: WatchedProcess[] = []
  readonly targets = [new Target(readJsonNotice), new Target(readSlackNotice)]
  /** All that was seen of any condition but the expected one. */
  readonly strange = new Set<string>()
  readonly #cli: CommandLine
  readonly #stopped = new AbortController()
  #expected: ExpectedCondition | null = null
  #status: Sight = []
  #reads = 0
  /** How many each target had received before. */
  #noticesFrom: readonly number[] = []
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

  /** Waits for a status that was asked for now, and shows none: a process may see the fault before once more. */
  async quiet(): Promise<void> {
    const reads = this.#reads
    await expect.poll(() => this.#reads > reads + 1 && this.#status.length === 0).toBe(true)
  }

  /** Waits until each channel shows this condition, or none any more. @returns seconds since `at`, by channel */
  async measure(
    expected: ExpectedCondition,
    isOver: boolean,
    at: number,
  ): Promise<ReadonlyMap<Channel, number>> {
    this.#expected = expected
    if (!isOver) {
      this.strange.clear()
      this.#noticesFrom = this.targets.map(({ received }) => received.length)
    }
    const id = conditionId(expected)
    const wanted = isOver ? '' : id
    const seconds = new Map<Channel, number>()
    while (seconds.size < CHANNELS.length) {
      const sights = await this.#read()
      for (const channel of CHANNELS) {
        const shown = sights[channel]
        for (const one of shown.flat()) if (one !== id) this.strange.add(`${channel}: ${one}`)
        if (!seconds.has(channel) && shown.length > 0 && shown.every((one) => one.join('; ') === wanted))
          seconds.set(channel, (Date.now() - at) / 1_000)
      }
      if (Date.now() - at > LONGEST_MS)
        throw new Error(
          `${id}, over: ${isOver}, after ${LONGEST_MS} ms: ${JSON.stringify([...seconds, sights])}`,
        )
      await sleep(200)
    }
    return seconds
  }

  /** What is open now, by channel: of each process, or of each target. */
  async #read(): Promise<Readonly<Record<Channel, readonly Sight[]>>> {
    const urls = this.processes.map((one) => one.url()).filter((url) => url !== null)
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

  #toId(title: string): string {
    return this.#expected?.title.test(title) ? conditionId(this.#expected) : title
  }

  #readPage(text: string): Sight {
    const verdict = /<section\s+id="verdict"[\s\S]*?<\/section>/.exec(text)?.[0] ?? ''
    // Without its data, the page is the condition.
    if (verdict === '') return [this.#toId(text)]
    return [...verdict.matchAll(/<div\s+class="condition [\s\S]*?class="headline">([\s\S]*?)<\/p>/g)].map(
      ([, title = '']) => this.#toId(title),
    )
  }

  /** What a process knows alone it logs itself, so several may have logged the same. */
  #readLog(): Sight {
    const open = new Set<string>()
    const lines = this.processes.flatMap((one, index) => one.log().map((line) => ({ ...line, index })))
    const toKey = (id: string, index: number): string => `${id === AWAY ? index : ''}|${id}`
    for (const line of lines.toSorted((a, b) => a.time.localeCompare(b.time))) {
      const { event, index } = line
      if (event === 'condition_began') open.add(toKey(conditionId(line), index))
      if (event !== 'condition_ended') continue
      open.delete(toKey(conditionId(line), index))
      // What a process knew that has ended since, another one has the last word of.
      for (const [other, { child }] of this.processes.entries())
        if (child.exitCode !== null) open.delete(toKey(conditionId(line), other))
    }
    return [...new Set([...open].map((key) => key.slice(key.indexOf('|') + 1)))]
  }

  /** What has begun and is not over; one that came twice is there twice. */
  #readNotices(received: readonly Notice[]): Sight {
    const open = new Map<string, number>()
    for (const { isEnd, title, id } of received) {
      const shown = id ?? this.#toId(title)
      open.set(shown, (open.get(shown) ?? 0) + (isEnd ? -1 : 1))
    }
    return [...open].flatMap(([id, count]) => Array<string>(Math.abs(count)).fill(id))
  }

  /** `fillrate status --json`, again and again. */
  async #readStatus(): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      const { stdout } = await this.#cli.run('status', '--json')
      const report = JSON.parse(stdout) as Partial<StatusReport>
      // Without Postgres it has no report, and says so.
      this.#status =
        report.conditions?.map(conditionId) ?? (/problem in the database/.test(stdout) ? [AWAY] : [stdout])
      this.#reads++
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
function readMetrics(text: string): Sight {
  if (/^fillrate_database_up 0$/m.test(text)) return [AWAY]
  const held = [...text.matchAll(/^fillrate_condition\{(.*)\} 1$/gm)].map(([, labels = '']) =>
    Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, name, value]) => [name, value])),
  )
  return held.map((one) => conditionId(one as unknown as Condition))
}
