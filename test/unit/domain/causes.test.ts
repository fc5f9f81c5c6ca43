import assert from 'node:assert/strict'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { OwnTroubles } from '../../../src/daemon/own-troubles.ts'
import { CAUSE_CODES } from '../../../src/domain/causes.ts'
import { observeTroubles } from '../../../src/domain/observe-troubles.ts'
import type { TroubleFacts } from '../../../src/domain/trouble-facts.ts'
import { decideRecord, type RecordedTrouble } from '../../../src/domain/trouble-record.ts'
import { OWN_TROUBLE_TTL_MS, TROUBLE_CODES, TROUBLES, toTroubleKind } from '../../../src/domain/trouble.ts'

// A world in virtual time, in which causes begin and end, runs fail for them, and processes look, crash and are replaced.
// What is recorded of it is decided by the code that decides it for a database.

const KEYS = ['api.example.com 1', 'api.example.com 2'] as const
const WATCHED = TROUBLE_CODES.filter((code) => toTroubleKind(code).isRecordedOnly !== true)
const START = Date.UTC(2026, 10, 25)

interface Process {
  own: OwnTroubles
  key: (typeof KEYS)[number]
}

class World {
  ms = 0
  readonly record: RecordedTrouble[] = []
  /** Of each trouble, by its id: how often it was reported to begin and to end. */
  readonly begins = new Map<number, number>()
  readonly ends = new Map<number, number>()
  readonly #registered = new Set<string>()
  readonly #acceptedAt = new Map<string, number>()
  readonly #waitingAt = new Map<number, number>()
  processes: Process[] = []
  refused = new Set<string>()
  circuit: TroubleFacts['circuits'][number] | null = null
  isAway = false
  isShared = false
  isBroken = false
  stalledSince: number | null = null
  editedAt: number | null = null
  failed: TroubleFacts['failedRuns'][number] | null = null
  #waiting = 0

  constructor() {
    for (let n = 0; n < 2; n++) this.start()
  }

  get now(): Date {
    return new Date(START + this.ms)
  }

  start(key: Process['key'] = KEYS[0]): void {
    const own = new OwnTroubles()
    this.#registered.add(own.owner)
    this.processes.push({ own, key })
  }

  /** Ends all in order, and starts as many. */
  replaceAll(key: Process['key']): void {
    for (const { own } of this.processes.splice(0)) {
      if (!this.isAway) this.#registered.delete(own.owner)
      this.start(key)
    }
  }

  /** One is replaced by a process with the other key. */
  swap(n: number): void {
    const [gone] = this.processes.splice(n, 1)
    if (!this.isAway && gone !== undefined) this.#registered.delete(gone.own.owner)
    this.start(gone?.key === KEYS[0] ? KEYS[1] : KEYS[0])
  }

  /** A process is killed, and its successor started with the same key. */
  crash(n: number): void {
    const [gone] = this.processes.splice(n, 1)
    this.start(gone?.key)
  }

  call({ own, key }: Process): void {
    if (this.circuit !== null) return
    if (this.refused.has(key)) own.raise('key_refused', key, { reason: 'HTTP 401' }, this.ms)
    else this.accept(own, key)
  }

  accept(own: OwnTroubles, key: string): void {
    own.acceptKey(key, this.ms)
    this.#acceptedAt.set(key, START + this.ms)
  }

  failRun(isForCause: boolean): void {
    if (this.isAway) return
    const { key } = this.processes[0] as Process
    if (isForCause && this.circuit === null && !this.refused.has(key)) return
    if (isForCause) for (const one of this.processes) this.call(one)
    const failedFor = !isForCause ? null : this.circuit === null ? 'key_refused' : 'circuit_open'
    this.failed = { run: 1, sources: ['people'], scope: key, failedFor, reason: 'x', finishedAt: this.now }
  }

  #facts(): TroubleFacts {
    const at = START + this.ms
    const [{ key }] = this.processes as [Process]
    const stalledForMs = this.stalledSince === null ? 0 : at - this.stalledSince
    const status = {
      state: 'steady',
      windowMs: 2_000,
      nextWindowAt: null,
      stallReason: this.stalledSince === null ? null : 'the limit is used up',
      stalledForMs,
      sharedKey: this.isShared,
    } as unknown as NonNullable<TroubleFacts['leaders'][number]['status']>
    return {
      now: this.now,
      isReadOnly: false,
      waitingRows: this.#waiting,
      circuits: this.circuit === null ? [] : [this.circuit],
      leaders: [{ scope: key, status }],
      openTroubles: this.open(),
      endedCauses: this.record.flatMap(({ code, subject, endedAt, seenAt }) =>
        endedAt !== null &&
        CAUSE_CODES.includes(code) &&
        endedAt.getTime() - seenAt.getTime() < OWN_TROUBLE_TTL_MS
          ? [{ code, subject, endedAt }]
          : [],
      ),
      overdueJobs: { jobs: 0, since: null },
      scheduledRuns: [],
      changes:
        this.editedAt === null
          ? []
          : [
              {
                source: 'people',
                count: 1,
                edits: 1,
                oldestEditAt: new Date(this.editedAt),
                oldestImportAt: null,
              },
            ],
      spentBudgets: [],
      rejectedWrites: [],
      failedRuns: this.failed === null ? [] : [this.failed],
      hasDaemon: true,
    }
  }

  open = (): RecordedTrouble[] => this.record.filter(({ endedAt }) => endedAt === null)

  look({ own }: Process): void {
    this.ms += 5
    this.#waiting++
    this.#waitingAt.set(START + this.ms, this.#waiting)
    if (this.isAway) {
      own.raise('database_away', '', { reason: 'refused' }, this.ms)
      return
    }
    const away = own.list(this.ms).find(({ code }) => code === 'database_away')
    if (away !== undefined) {
      own.clear('database_away')
      const since = new Date(START + this.ms - away.forMs)
      this.#report(own, [{ ...away, since, endedAt: this.now }], [])
    }
    const since = this.now
    const broken = [{ code: 'source_broken' as const, subject: 'people', since, details: {} }]
    this.#report(own, this.isBroken ? broken : [], ['source_broken'])
    const facts = this.#facts()
    const observed = observeTroubles(facts, { own: own.list(this.ms), schedules: null })
    // No symptom is seen while a cause that explains it is.
    for (const { code, seenAt } of facts.openTroubles) {
      const agoMs = START + this.ms - seenAt.getTime()
      if (code === 'shared_key' || !CAUSE_CODES.includes(code) || agoMs >= OWN_TROUBLE_TTL_MS) continue
      const symptoms = code === 'source_broken' ? /behind/ : /waiting|behind/
      assert.deepEqual(
        observed.map((one) => one.code).filter((symptom) => symptoms.test(symptom)),
        [],
      )
    }
    this.#report(own, observed, WATCHED)
  }

  #report(own: OwnTroubles, observed: Parameters<typeof decideRecord>[1], codes: typeof WATCHED): void {
    const proofs = own.listAcceptedKeys(this.ms).map(({ scope, agoMs }) => ({
      code: 'key_refused' as const,
      subject: scope,
      at: new Date(START + this.ms - agoMs),
    }))
    const report = { reporter: own.owner, codes, at: this.now, proofs }
    const { begun, refreshed, ended, disproved } = decideRecord(this.record, observed, report, {
      now: this.now,
      alive: this.#registered,
    })
    for (const one of refreshed) Object.assign(this.record[one.id] ?? {}, one, { reporter: own.owner })
    for (const { id, knownAt: provedAt } of ended) {
      const { code, subject, knownAt, seenAt, reporter } = this.record[id] as RecordedTrouble
      // A live process that knows a key to be refused is right, whatever another key is.
      if (code === 'key_refused' && this.#registered.has(reporter) && reporter !== own.owner)
        assert(
          (this.#acceptedAt.get(subject) ?? 0) > knownAt.getTime() ||
            START + this.ms - seenAt.getTime() > OWN_TROUBLE_TTL_MS,
        )
      Object.assign(this.record[id] ?? {}, { endedAt: this.now, knownAt: provedAt })
      this.ends.set(id, (this.ends.get(id) ?? 0) + 1)
    }
    for (const one of begun) {
      // What is over begins again by new evidence only, and one outage is one trouble.
      const former = this.record.filter(({ code, subject }) => code === one.code && subject === one.subject)
      const from = one.endedAt === null ? one.knownAt : one.since
      for (const { endedAt, seenAt } of former)
        if ((endedAt?.getTime() ?? 0) - seenAt.getTime() < OWN_TROUBLE_TTL_MS)
          assert(endedAt !== null && endedAt < from)
      const id =
        this.record.push({ ...one, id: this.record.length, severity: TROUBLES[one.code].severity }) - 1
      this.begins.set(id, 1)
      if (one.endedAt !== null) this.ends.set(id, 1)
    }
    for (const { subject } of disproved) own.clear('key_refused', subject)
    this.#check()
  }

  #check(): void {
    const open = this.open()
    assert.equal(new Set(open.map(({ code, subject }) => `${code} ${subject}`)).size, open.length)
    for (const { code, details, seenAt, since } of open) {
      // Each figure is of the moment at which it was last seen.
      if (details.waiting !== undefined && code !== 'live_sync_behind')
        assert.equal(details.waiting, this.#waitingAt.get(seenAt.getTime()))
      assert(since <= seenAt)
    }
  }

  mend(): void {
    this.isAway = this.isShared = this.isBroken = false
    this.circuit = this.stalledSince = this.editedAt = this.failed = null
    this.refused.clear()
  }
}

const CIRCUIT = { probeAt: new Date(START + 9e9), reason: 'HTTP 500', cause: 'failing' as const }

const ACTIONS: Readonly<Record<string, (world: World, n: number) => void>> = {
  refuse: (world, n) => world.refused.add(KEYS[n] ?? KEYS[0]),
  accept: (world) => world.refused.clear(),
  fail: (world) => (world.circuit ??= { ...CIRCUIT, scope: KEYS[0], openedAt: world.now }),
  recover: (world) => (world.circuit = null),
  pull: (world) => (world.isAway = true),
  plug: (world) => (world.isAway = false),
  breakSource: (world) => (world.isBroken = true),
  mendSource: (world) => (world.isBroken = false),
  share: (world) => (world.isShared = !world.isShared),
  stall: (world) => (world.stalledSince ??= START + world.ms),
  proceed: (world) => (world.stalledSince = null),
  edit: (world, n) => (world.editedAt ??= START + world.ms - n * 115_000),
  pick: (world) => (world.editedAt = null),
  call: (world, n) => world.call(world.processes[n] as Process),
  failRun: (world, n) => world.failRun(n === 0),
  succeed: (world) => (world.failed = null),
  crash: (world, n) => world.crash(n),
  replace: (world, n) => world.replaceAll(KEYS[n] ?? KEYS[0]),
  swap: (world, n) => world.swap(n),
  look: (world, n) => world.look(world.processes[n] as Process),
  lookAll: (world) => world.processes.forEach((one) => world.look(one)),
  wait: (world, n) => (world.ms += n === 0 ? 2_000 : 45_000),
}

const steps = fc.array(
  fc.record({
    action: fc.constantFrom(...Object.keys(ACTIONS), 'look', 'look', 'lookAll', 'lookAll', 'call', 'wait'),
    n: fc.nat(1),
    ms: fc.nat(5_000),
  }),
  { maxLength: 80 },
)

test('whatever begins ends once, within ten seconds of its mend, in whatever process it was seen', () => {
  fc.assert(
    fc.property(steps, (list) => {
      const world = new World()
      for (const { action, n, ms } of list) {
        world.ms += ms
        ACTIONS[action]?.(world, n)
      }
      world.mend()
      world.ms += 6_000
      // One process calls, and the other one has nothing to look up.
      const [{ own }] = world.processes as [Process]
      for (const key of KEYS) world.accept(own, key)
      for (let n = 0; n < 2; n++) for (const one of world.processes) world.look(one)
      expect(world.open()).toEqual([])
      expect(world.processes.flatMap((one) => one.own.list())).toEqual([])
      expect([...world.begins.keys()].map((id) => world.ends.get(id))).toEqual(
        [...world.begins.keys()].map(() => 1),
      )
    }),
    { numRuns: 3_000 },
  )
})

test('a run that failed for a cause is no trouble after its mend', () => {
  fc.assert(
    fc.property(steps, (list) => {
      const world = new World()
      const settle = (): void => {
        for (let n = 0; n < 2; n++) for (const one of world.processes) world.look(one)
      }
      world.refused.add(KEYS[0])
      for (const one of world.processes) world.call(one)
      settle()
      world.failRun(true)
      const { failed } = world
      for (const { action, n, ms } of list) {
        world.ms += Math.min(ms, 500)
        if (
          [
            'look',
            'lookAll',
            'call',
            'fail',
            'recover',
            'share',
            'stall',
            'breakSource',
            'mendSource',
          ].includes(action)
        )
          ACTIONS[action]?.(world, n)
      }
      settle()
      world.mend()
      world.failed = failed
      world.call(world.processes[0] as Process)
      world.ms += 6_000
      settle()
      world.ms += 3_600_000
      settle()
      expect(world.record.filter(({ code }) => code === 'run_failed')).toEqual([])
      expect(world.open()).toEqual([])
    }),
    { numRuns: 1_000 },
  )
})
