import type { Output } from '../../cli/output.ts'
import { pad, width, wrap } from '../../cli/render/text.ts'

type CommandStep = readonly [type: string, what: string]

/** How things are typed here. */
export interface DemoCommands {
  readonly again: string
  readonly own: readonly CommandStep[]
}

/** In a checkout everything goes through npm. @param env npm says in it which script it runs */
export function demoCommands(env: NodeJS.ProcessEnv): DemoCommands {
  const inCheckout = env['npm_lifecycle_event'] === 'start' || env['npm_lifecycle_event'] === 'fillrate'
  const command = (words: string): string =>
    inCheckout ? `npm run fillrate -- ${words}` : `fillrate ${words}`
  const example = 'fillrate.config.example.ts'
  const files: CommandStep[] = inCheckout
    ? [
        [`cp ${example} fillrate.config.ts`, 'your tables and columns'],
        ['cp .env.example .env', 'database, service and key'],
      ]
    : [
        [`cp node_modules/fillrate/${example} fillrate.config.ts`, 'your tables and columns'],
        ['fillrate help', 'the settings'],
      ]
  return {
    again: inCheckout ? 'npm start' : 'fillrate demo',
    own: [
      ...files,
      [command('check'), 'what is missing or wrong'],
      [command('migrate'), 'makes a schema of its own'],
      [command('plan'), 'what a run would cost'],
      [command('run --limit 100'), 'a first, small run'],
    ],
  }
}

/**
 * What to type next: the demo again, and then with a database of one's own.
 * @param folders that the demo has made
 */
export function demoNextStepLines(
  { again, own }: DemoCommands,
  folders: readonly string[],
  output: Output,
): string[] {
  return [
    ...stepLines(
      [
        [again, 'again: it asks nothing again'],
        [`rm -rf ${folders.join(' ')}`, 'takes all of it away'],
      ],
      output,
    ),
    '',
    '  With a database of your own:',
    '',
    ...stepLines(own, output),
  ]
}

/** A longer command has its meaning on the next line. */
const MAX_BESIDE_WIDTH = 50

/** What to type, with what it does beside it, or under it where there is no room. */
function stepLines(list: readonly CommandStep[], output: Output): string[] {
  const { paint, textColumns } = output
  const longest = Math.max(...list.map(([type]) => width(type)).filter((one) => one <= MAX_BESIDE_WIDTH))
  return list.flatMap(([type, what]) => {
    const beside = 2 + longest + 2
    const lines = wrap(what, Math.max(20, textColumns - beside))
    if (width(type) > longest)
      return [`  ${paint('type', type)}`, ...lines.map((line) => ' '.repeat(beside) + line)]
    return lines.map((line, n) => `  ${paint('type', pad(n === 0 ? type : '', longest))}  ${line}`)
  })
}
