import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { program, UsageError } from '../../../src/cli/command.ts'
import { commands } from '../../../src/cli/commands.ts'
import { parseCommandLine } from '../../../src/cli/parse.ts'

const read = (words: readonly string[]) => {
  const { command, args, flags } = parseCommandLine(words)
  return { name: command.name, args, flags }
}
const parse = (line: string) => read(line.split(' ').filter((word) => word !== ''))

function errorOf(...words: string[]): UsageError {
  try {
    parseCommandLine(words)
  } catch (error) {
    if (error instanceof UsageError) return error
    throw error
  }
  throw new Error(`${words.join(' ')} was parsed`)
}

function outcomeOf(words: readonly string[]): string {
  try {
    return commands.includes(parseCommandLine(words).command) ? 'parsed' : 'an unknown command'
  } catch (error) {
    return error instanceof UsageError ? 'rejected' : `thrown: ${String(error)}`
  }
}

describe('a command', () => {
  test('without options has every default', () => {
    expect(parse('run')).toEqual({
      name: 'run',
      args: [[]],
      flags: {
        config: null,
        json: false,
        logFormat: null,
        logLevel: null,
        color: true,
        help: false,
        version: false,
        limit: null,
        budget: null,
        where: null,
        route: 'auto',
        wait: 30 * 60_000,
        backfill: false,
        dryRun: false,
        sample: null,
        exitZeroOn: [],
      },
    })
  })

  test('parses every option of run', () => {
    const words = ['run', 'contacts', '--limit', '50', '--budget=1,000', '--where', 't.id < 5', 'accounts']
    const more = [
      '--route',
      'BULK',
      '--wait',
      '90s',
      '--json',
      '--config',
      'a.ts',
      '--log-level',
      'debug',
      '--no-color',
    ]
    expect(read([...words, ...more])).toMatchObject({
      name: 'run',
      args: [['contacts', 'accounts']],
      flags: {
        limit: 50,
        budget: 1_000,
        where: 't.id < 5',
        route: 'bulk',
        wait: 90_000,
        json: true,
        config: 'a.ts',
        logFormat: null,
        logLevel: 'debug',
        color: false,
      },
    })
  })

  test('parses every option of the sandbox', () => {
    const { flags } = parseCommandLine(
      'sandbox --port 0 --limit 200 --window 2s --seed 0 --knows 45% --latency 20ms --job-delay 1s --fault 500=5%,lost=10%'.split(
        ' ',
      ),
    )
    expect(flags).toMatchObject({
      port: 0,
      limit: 200,
      window: 2_000,
      seed: 0,
      knows: 0.45,
      latency: 20,
      jobDelay: 1_000,
      fault: { '500': 0.05, lost: 0.1 },
    })
  })

  test.each([
    ['run --wait 0', { wait: 0 }],
    ['run --budget unlimited', { budget: 'unlimited' }],
    ['run --budget 0', { budget: 0 }],
    ['run --limit 1_000_000', { limit: 1_000_000 }],
    ['run --limit 5 --limit 6', { limit: 6 }],
    ['serve --port 8080 --host 0.0.0.0', { port: 8_080, host: '0.0.0.0' }],
    ['runs --state failed --limit 3', { state: 'failed', limit: 3 }],
    ['runs --state failed', { state: 'failed', limit: 20 }],
    ['failures --csv - --source contacts', { csv: '-', source: 'contacts', limit: null }],
    ['--json status', { json: true }],
    ['--config x.ts check', { config: 'x.ts' }],
  ])('%s', (line, flags) => {
    expect(parse(line).flags).toMatchObject(flags)
  })

  test('accepts words that look like options after --', () => {
    expect(parse('plan -- --odd')).toMatchObject({ name: 'plan', args: [['--odd']] })
  })
})

describe('help and version', () => {
  test.each([
    ['', []],
    ['help', []],
    ['--help', []],
    ['-h', []],
    ['help run', ['run']],
    ['run --help', ['run']],
    ['run -h', ['run']],
    ['--help run', ['run']],
    ['run --limit nonsense --odd --help', ['run']],
    ['help --help', []],
  ])('"%s"', (line, words) => {
    expect(parse(line)).toMatchObject({ name: 'help', args: words })
  })

  test.each(['--version', 'version', 'run --version', '--version --json'])('%s', (line) => {
    expect(parse(line)).toMatchObject({ name: 'version', args: [] })
  })

  test('help for an unknown command is a usage error', () => {
    expect(errorOf('help', 'rnu').suggestion).toBe("Did you mean 'run'?")
    expect(errorOf('rnu', '--help').message).toMatch(/'rnu'/)
  })
})

describe('a usage error has a message, a suggestion and the usage line', () => {
  test.each([
    [['rnu'], /no command 'rnu'/, "Did you mean 'run'?"],
    [['run', '--limt', '5'], /no option --limt/, "Did you mean '--limit'?"],
    [['run', '-x'], /no option -x/, null],
    [['--odd'], /no option --odd/, null],
    [['run', '--csv', 'x'], /--csv is no option of fillrate run, but of fillrate failures/, null],
    [['run', '--limit'], /--limit needs a value: --limit N/, null],
    [['run', '--limit', '--json'], /--limit needs a value/, null],
    [['run', '--limit', '0'], /--limit: expected a whole number from 1, found '0'/, null],
    [['run', '--limit', '-5'], /--limit: expected a whole number from 1, found '-5'/, null],
    [['run', '--limit', '1.5'], /--limit: expected a whole number/, null],
    [['run', '--limit', '10,00'], /--limit: expected a whole number/, null],
    [['run', '--limit', '99999999999999999999'], /--limit: expected a whole number/, null],
    [['run', '--budget', 'lots'], /--budget: expected a whole number or 'unlimited', found 'lots'/, null],
    [['run', '--route', 'fast'], /--route: expected auto, sync or bulk, found 'fast'/, null],
    [['run', '--wait', '30'], /--wait: expected a duration with its unit.*found '30'/, null],
    [['run', '--where', ' '], /--where: expected a text that is not empty/, null],
    [['run', '--json=yes'], /--json takes no value, found 'yes'/, null],
    [['run', '--log-level', 'loud'], /--log-level: expected trace, debug/, null],
    [['serve', '--port', '70000'], /--port: expected a port, 0 to 65535/, null],
    [['runs', '--state', 'gone'], /--state: expected running, /, null],
    [['runs', '12'], /fillrate runs takes no words after it, found '12'/, null],
    [['sandbox', '--fault', '501=5%'], /--fault: expected faults with a share, as 500=5%: 202, 500/, null],
    [['sandbox', '--fault', '500=200%'], /--fault: expected a share from 0% to 100%/, null],
    [['sandbox', '--knows', '60'], /--knows: expected a share from 0% to 100%/, null],
  ] as const)('%j', (words, message, suggestion) => {
    const error = errorOf(...words)
    expect(error.message).toMatch(message)
    expect(error.suggestion).toBe(suggestion)
    expect(error.usage).toMatch(/^fillrate .*\[options\]$/)
    expect(error.help).toMatch(/^fillrate /)
  })

  test('shows neither control characters nor passwords of the command line', () => {
    expect(errorOf('run\u001b[2J').message).not.toContain('\u001b')
    expect(errorOf('runs', 'postgres://crm:s3cret@host/crm').message).not.toContain('s3cret')
  })

  test('any words are parsed or rejected with a UsageError', () => {
    const flags = [program, ...commands.map((one) => one.parser)].flatMap((one) =>
      one.options.map((option) => option.long ?? ''),
    )
    const word = fc.oneof(
      fc.constantFrom(...commands.map((one) => one.name), ...flags),
      fc.string(),
      fc.constantFrom('-', '--', '=', '-1', '0'),
    )
    fc.assert(
      fc.property(fc.array(word, { maxLength: 6 }), (words) => {
        expect(outcomeOf(words)).toMatch(/^(parsed|rejected)$/)
      }),
    )
  })
})
