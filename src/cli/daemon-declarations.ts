import { DATABASE, declare } from './declare.ts'
import { port, text, wholeNumber } from './flag.ts'

// The commands of the process that one leaves running.

export const startDeclaration = declare({
  group: 'work',
  summary: 'the daemon: schedule, sync, receiver and dashboard',
  about:
    'Runs until told to stop: what `schedule` says, at its times; rows of sources with `follow: true`, as they change; ' +
    'and what the service delivers. Any number may run on one database: a tick is run once. SIGHUP reads the ' +
    'configuration again; one that is wrong is refused whole. The first SIGTERM lets what is under way finish, the ' +
    'second stops at once; either way the state is saved.',
  flags: {
    port: port('default: FILLRATE_PORT, else any that is free', null),
    host: text('HOST', 'default: FILLRATE_HOST, else 127.0.0.1'),
  },
  examples: [['fillrate start --port 8080', '']],
  exits: [0, 1, 2],
  environment: [
    ...DATABASE,
    'FILLRATE_BASE_URL',
    'FILLRATE_API_KEY',
    'FILLRATE_AUTH',
    'FILLRATE_WEBHOOK_SECRET',
    'FILLRATE_PUBLIC_URL',
    'FILLRATE_PORT',
    'FILLRATE_HOST',
    'FILLRATE_DASHBOARD_TOKEN',
    'FILLRATE_NOTIFY_URL',
    'FILLRATE_NOTIFY_SECRET',
    'LOG_LEVEL',
  ],
  onInterrupt: 'finishing what is under way; again to stop at once, with the state saved',
  longLived: true,
})

export const followDeclaration = declare({
  group: 'first',
  summary: "puts the triggers of a sync on a source's table, or takes them off",
  about:
    'With `install`, puts two triggers on the table of a source, which record the keys of rows whose inputs change, so ' +
    'that `fillrate start` enriches them within a second. A statement never fails or waits because of them. With ' +
    '`remove`, takes them off. `fillrate check` tells whether they are there and right. After a change of the ' +
    "source's inputs, install them again.",
  words: { placeholder: 'install|remove SOURCE', help: 'what to do, and a source', most: 2, least: 2 },
  flags: {},
  examples: [['fillrate follow install contacts', 'then `follow: true` on the source, and `fillrate start`']],
  environment: DATABASE,
})

export const scheduleDeclaration = declare({
  group: 'look',
  summary: 'when the schedule runs next, in its own zone',
  about: 'The next times of each entry of `schedule` in the configuration, in its time zone.',
  flags: { limit: wholeNumber('times of each entry; default: 5', 1, 5) },
  examples: [['fillrate schedule', '']],
  exits: [0, 2],
})
