import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { program, UsageError } from '../../../src/cli/command.ts'
import { commands } from '../../../src/cli/commands.ts'
import { parseCommandLine } from '../../../src/cli/cli.ts'

function read(words: readonly string[]) {
  const parsed = parseCommandLine(words)
  if (typeof parsed === 'string') throw new Error(parsed)
  const { command, args, flags } = parsed
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
    parseCommandLine(words)
    return 'parsed'
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
        limit: null,
        budget: null,
        where: null,
        route: 'auto',
        wait: 30 * 60_000,
        backfill: false,
        dryRun: false,
        exitZeroOn: [],
      },
    })
  })

  test('parses every option of run', () => {
    const words = ['run', 'contacts', '--limit', '50', '--budget=1,000', '--where', 't.id < 5', 'accounts']
    const more = ['--route', 'bulk', '--wait', '90s', '--json', '--config', 'a.ts']
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
      },
    })
  })

  test('parses every option of the sandbox', () => {
    const { flags } = read(
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
    ['run --budget unlimited', { budget: 'unlimited' }],
    ['run --limit 1_000_000', { limit: 1_000_000 }],
    ['run --limit 5 --limit 6', { limit: 6 }],
    ['runs', { limit: 20 }],
    ['--json status', { json: true }],
    ['--config x.ts check', { config: 'x.ts' }],
  ])('%s', (line, flags) => {
    expect(parse(line).flags).toMatchObject(flags)
  })

  test('accepts words that look like options after --', () => {
    expect(parse('plan -- --odd')).toMatchObject({ name: 'plan', args: [['--odd']] })
  })
})

describe('a usage error says what is wrong, with the nearest word and the usage line', () => {
  test.each([
    [['rnu'], /unknown command 'rnu' \(Did you mean run\?\)/],
    [['run', '--limt', '5'], /unknown option '--limt' \(Did you mean --limit\?\)/],
    [['run', '--limit'], /option '--limit <N>' argument missing/],
    [['run', '--limit', '--dry-run'], /argument '--dry-run' is invalid/],
    [['run', '--limit', '0'], /'--limit <N>' argument '0' is invalid. Expected a whole number from 1/],
    [['run', '--limit', '1.5'], /Expected a whole number/],
    [['run', '--limit', '99999999999999999999'], /Expected a whole number/],
    [['run', '--budget', 'lots'], /argument 'lots' is invalid. Expected a whole number or 'unlimited'/],
    [['run', '--wait', '30'], /Expected a duration with its unit/],
    [['run', '--where', ' '], /Expected a text that is not empty/],
    [['run', '--where', '--dry-run'], /Expected a text that is not an option/],
    [['serve', '--port', '70000'], /Expected a port, 0 to 65535/],
    [['run', '--route', 'gone'], /Allowed choices are auto, /],
    [['remap'], /missing required argument 'SOURCE'/],
    [['sandbox', '--fault', '501=5%'], /Expected faults with a share, as 500=5%: 202, 500/],
    [['sandbox', '--fault', '500=200%'], /Expected a share from 0% to 100%/],
  ] as const)('%j', (words, message) => {
    const error = errorOf(...words)
    expect(error.message).toMatch(message)
    expect(error.usage).toMatch(/^fillrate .*\[options\]/)
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
