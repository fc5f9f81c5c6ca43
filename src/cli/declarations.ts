import { logLevels } from '../config/environment.ts'
import { Job } from '../domain/job.ts'
import { Run } from '../domain/run.ts'
import { faultMeanings, parseFaults } from '../sandbox/faults.ts'
import { DATABASE, declare, FINISHING, sources } from './declare.ts'
import {
  budget,
  duration,
  durationRange,
  listed,
  oneOf,
  port,
  readBy,
  text,
  toggle,
  wholeNumber,
} from './flag.ts'
import { forgetDeclaration } from './forget-declaration.ts'
import { followDeclaration, scheduleDeclaration, startDeclaration } from './daemon-declarations.ts'
import { initDeclaration } from './init/declaration.ts'
import { pauseDeclaration, resumeDeclaration } from './pause-declarations.ts'
import {
  explainDeclaration,
  failuresDeclaration,
  remapDeclaration,
  retryDeclaration,
  undoDeclaration,
} from './trust-declarations.ts'

/** Flags of every command. */
export const GLOBAL_FLAGS = {
  config: text('FILE', 'the configuration; default: fillrate.config.ts, .js, .mjs or .json here'),
  json: toggle('one JSON object on standard output, for programs'),
  logLevel: oneOf(logLevels, `how much is told on standard error: ${listed(logLevels)}`, null, 'LEVEL'),
  noColor: toggle('no colours'),
  help: toggle('this help', { short: 'h' }),
  version: toggle('the version'),
} as const

const MINUTE = 60_000
const SERVICE = ['DATABASE_URL', 'FILLRATE_BASE_URL', 'FILLRATE_API_KEY', 'FILLRATE_AUTH'] as const
const RECEIVER = ['FILLRATE_WEBHOOK_SECRET', 'FILLRATE_PUBLIC_URL', 'FILLRATE_PORT', 'FILLRATE_HOST'] as const

const picking = {
  limit: wholeNumber('rows of each source, at the most; what an interrupted run left counts', 1, null),
  budget: budget("lookups that may be asked; default: the configuration's budget"),
  where: text('SQL', 'only rows for which this is true; the table is t, as in the configuration'),
  route: oneOf(['auto', 'sync', 'bulk'], 'one call a lookup, or jobs of 100; default: auto', 'auto'),
} as const

const CLOSING = 'closing; again to stop at once'

/** Every command. Parsing and help are both made from this table. */
export const declarations = {
  demo: declare({
    group: 'first',
    summary: 'the whole of it on this machine, with no settings',
    about:
      'Starts a Postgres of its own in .fillrate/, fills it with a CRM of 800 companies and 5,000 people, starts the ' +
      'sandbox, and enriches what is missing. Run again, it asks nothing again.',
    flags: {},
    examples: [['fillrate demo', 'under a minute, and leaves a database to look at']],
    exits: [0, 1, 130],
    onInterrupt: FINISHING,
  }),
  init: initDeclaration,
  check: declare({
    group: 'first',
    summary: 'configuration, database and service, each with what to do about it',
    about:
      'Looks at everything that a run needs, and says of each thing that is wrong what to do. Changes nothing, and costs nothing.',
    flags: {},
    examples: [
      ['fillrate check', ''],
      ['fillrate check --config staging.config.ts', ''],
    ],
    exits: [0, 2],
    environment: [...SERVICE, ...RECEIVER],
  }),
  migrate: declare({
    group: 'first',
    summary: 'creates or upgrades the fillrate schema',
    about:
      'Creates the schema "fillrate" in the database, or brings it up to this version. Safe to run twice, and by two ' +
      'processes at once. Touches none of your own tables.',
    flags: {},
    examples: [['fillrate migrate', 'once, and after every upgrade of Fillrate']],
    exits: [0, 1, 2],
    environment: DATABASE,
  }),
  follow: followDeclaration,
  plan: declare({
    group: 'work',
    summary: 'what a run would ask and cost; writes nothing and calls nothing',
    about:
      'Goes through the same steps as a run, up to the first call: rows, distinct lookups, those that are answered ' +
      'already, calls by route, cost and time.',
    words: sources,
    flags: {
      ...picking,
      sample: wholeNumber(
        'rows to show before and after, out of those whose records are stored already',
        1,
        null,
      ),
    },
    examples: [
      ['fillrate plan', 'everything'],
      ['fillrate plan --sample 20', 'and what stored records would put into 20 rows'],
      ['fillrate plan contacts --where "t.country = \'NO\'"', 'some rows of one source'],
    ],
    exits: [0, 1, 2, 130],
    environment: [...SERVICE, 'FILLRATE_WEBHOOK_SECRET', 'FILLRATE_PUBLIC_URL'],
  }),
  run: declare({
    group: 'work',
    summary: 'one pass: picks, asks, writes back',
    about:
      'Picks the rows that lack data, asks the service about them at the rate it allows, and writes the answers back. ' +
      'An interrupted run loses nothing: the next one carries on where it was, and asks nothing twice.',
    words: sources,
    flags: {
      ...picking,
      wait: duration(
        '30m|0',
        'how long to wait for deliveries when nothing else is left to do; default: 30m',
        30 * MINUTE,
      ),
      backfill: toggle('behind everything else: syncs and nightly runs ask first'),
      dryRun: toggle('asks and stores the answers, writes nothing to your tables, shows what it would write'),
      sample: wholeNumber('rows to show before and after, with --dry-run; default: 20', 0, null),
    },
    examples: [
      ['fillrate run --budget 1000', 'asks at most 1,000 lookups'],
      ['fillrate run --dry-run --budget 100', 'shows what 100 answers would change; the next run writes it'],
      ['fillrate run contacts --limit 50', '50 rows, to see what comes'],
      ['fillrate run --wait 0 --json', 'from cron, with `fillrate serve` to receive the deliveries'],
    ],
    exits: [0, 1, 2, 3, 4, 130],
    environment: [...SERVICE, ...RECEIVER, 'LOG_LEVEL'],
    onInterrupt: FINISHING,
  }),
  retry: retryDeclaration,
  undo: undoDeclaration,
  forget: forgetDeclaration,
  remap: remapDeclaration,
  start: startDeclaration,
  pause: pauseDeclaration,
  resume: resumeDeclaration,
  serve: declare({
    group: 'work',
    summary: 'receiver, dashboard and metrics; writes back what it receives',
    about:
      'Listens for the deliveries of bulk jobs until told to stop, settles them and writes their records back, so that ' +
      'a run need not stay for them. The dashboard is at /, metrics for Prometheus at /metrics.',
    flags: {
      port: port('default: FILLRATE_PORT, else any that is free', null),
      host: text('HOST', 'default: FILLRATE_HOST, else 127.0.0.1'),
    },
    examples: [['fillrate serve --port 8080', 'then open http://127.0.0.1:8080/']],
    exits: [0, 1, 2],
    environment: [...SERVICE, ...RECEIVER, 'FILLRATE_DASHBOARD_TOKEN', 'LOG_LEVEL'],
    onInterrupt: CLOSING,
    longLived: true,
  }),
  status: declare({
    group: 'look',
    summary: 'rows by state, fill rate by column, jobs, the limit',
    about:
      'How things stand. Every row that was ever picked is in exactly one state, and the states add up. Coverage is ' +
      'the share of rows whose column is not blank.',
    flags: {},
    examples: [
      ['fillrate status', ''],
      ['fillrate status --json | jq .fill_rate', ''],
    ],
    environment: DATABASE,
  }),
  schedule: scheduleDeclaration,
  runs: declare({
    group: 'look',
    summary: 'the latest runs and what they did',
    about:
      'The latest runs, newest first, with the rows they picked and enriched and the lookups they asked.',
    flags: {
      state: oneOf(Object.values(Run), `only these: ${listed(Object.values(Run))}`, null, 'STATE'),
      limit: wholeNumber('at the most; default: 20', 1, 20),
    },
    examples: [['fillrate runs --state failed', '']],
    environment: DATABASE,
  }),
  jobs: declare({
    group: 'look',
    summary: 'the latest bulk jobs and how they ended',
    about:
      'The latest bulk jobs, newest first. A job in doubt may have reached the service: it is not sent again before its ' +
      'deadline, so that nothing is paid twice.',
    words: {
      placeholder: '[retry|expire JOB]',
      help: 'retry: posts at once what the service did not take. expire: waits no longer, and has the inputs asked singly',
      most: 2,
    },
    flags: {
      state: oneOf(Object.values(Job), `only these: ${listed(Object.values(Job))}`, null, 'STATE'),
      limit: wholeNumber('at the most; default: 20', 1, 20),
    },
    examples: [
      ['fillrate jobs --state submitted', 'those that wait for their delivery'],
      ['fillrate jobs expire job_4711', 'gives one up; what it may have cost already is told'],
    ],
    environment: DATABASE,
  }),
  failures: failuresDeclaration,
  explain: explainDeclaration,
  sandbox: declare({
    group: 'try',
    summary: "the service's interface on this machine, with faults to choose",
    about:
      'A stand-in for the enrichment service: every endpoint, rate-limit headers, bulk jobs with signed deliveries. ' +
      'Records are made up from the input, the same for the same seed. Counts are at /_stats.',
    flags: {
      port: port('default: 4010; 0: any that is free', 4010),
      host: text('HOST', 'default: 127.0.0.1'),
      limit: wholeNumber('calls in a window; default: no limit', 1, null),
      window: duration('2s', 'the length of a window; default: 10s', 10_000),
      key: text('KEY', 'an API key that it takes; may be repeated; default: sandbox-key', { repeats: true }),
      secret: text('SECRET', 'what it signs deliveries with; default: sandbox-webhook-secret'),
      seed: wholeNumber('decides records, faults and delays; default: 1', 0, null),
      latency: durationRange('20-200ms', 'how long an answer takes; default: none'),
      jobDelay: durationRange('1-5s', 'the wait between a job and its delivery; default: 200-1000ms'),
      fault: readBy(
        'NAME=SHARE,…',
        'what goes wrong, and how often (0.05 or 5%); may be repeated',
        {},
        parseFaults,
        {
          repeats: true,
        },
      ),
    },
    examples: [
      ['fillrate sandbox --limit 200 --window 2s', 'a quota of 200 calls in 2 seconds'],
      ['fillrate sandbox --fault 500=5%,duplicate=10%', 'errors, and deliveries that come twice'],
    ],
    exits: [0, 1, 2],
    onInterrupt: CLOSING,
    longLived: true,
    terms: { title: 'Faults', list: faultMeanings },
  }),
  help: declare({
    group: 'hidden',
    summary: 'this help, or that of a command',
    about: 'This help, or that of a command.',
    words: { placeholder: '[COMMAND]', help: 'a command', most: 1 },
    flags: {},
    examples: [],
    exits: [0],
  }),
  version: declare({
    group: 'hidden',
    summary: 'the version',
    about: 'The version.',
    flags: {},
    examples: [],
    exits: [0],
  }),
} as const

export type Verb = keyof typeof declarations
export const VERBS = Object.keys(declarations) as readonly Verb[]

export const isVerb = (word: string): word is Verb => Object.hasOwn(declarations, word)
