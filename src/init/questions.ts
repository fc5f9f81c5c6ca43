import type { ProposedSource, Question } from './proposal.ts'
import type { RowFlag } from './flag-sql.ts'

/** Rarer than this, what is not understood is left out until it is decided; of a column, all that is together. */
const RARE_SHARE = 0.3
/** Rows have many tags, and most say nothing; what another row is says less of this one. */
const RARE_TAGS = 0.1
const RARE_OTHERS = 0.2

const shareOf = ({ isTag, isOfOther }: RowFlag): number =>
  isTag ? RARE_TAGS : isOfOther ? RARE_OTHERS : RARE_SHARE

/** The flags of which it is not sure, with how many of the sampled rows each leaves out. Pure. */
export function toQuestions(
  flags: readonly RowFlag[],
  leftOut: readonly number[],
  sampled: number,
): { questions: Question[]; conditions: string[] } {
  const counted = flags.map((flag, n) => ({ flag, count: leftOut[n] ?? 0 }))
  const open = counted.filter(
    ({ flag, count }) =>
      count > 0 &&
      (flag.isSure || count < sampled) &&
      // What most rows have is hardly a reason against them.
      (flag.meaning !== null || flag.isLeftOut !== undefined || count * 2 <= sampled),
  )
  const rare = new Set<RowFlag>()
  for (const some of Map.groupBy(open, ({ flag }) => flag.column).values()) {
    let sum = 0
    for (const { flag, count } of some.toSorted((a, b) => a.count - b.count)) {
      if (flag.meaning !== null) continue
      sum += count
      if (sum <= sampled * shareOf(flag)) rare.add(flag)
    }
  }
  return {
    questions: open.map(({ flag, count }) => ({
      about: flag.column,
      when: flag.when,
      keep: flag.keep,
      leftOut: count,
      isLeftOut: flag.isLeftOut ?? (flag.meaning !== null || rare.has(flag)),
      isUnderstood: flag.meaning !== null,
      isSure: flag.isSure,
      isOfOther: flag.isOfOther === true,
    })),
    // Of what looks like a reason by its name, and no sampled row has, there is nothing to decide.
    conditions: counted.flatMap(({ flag, count }) =>
      count === 0 && (flag.isSure || (flag.meaning !== null && sampled > 0)) ? [flag.keep] : [],
    ),
  }
}

/** A person answers which tables are meant, a question about each of six sources, the largest, and reads sixteen choices of one. */
const MAX_SOURCES = 6
const MAX_CHOICES = 16

/**
 * The choices that are put before a person: for each source those that look like a reason to leave rows out, then those that concern
 * most rows, then what is sure. What is beyond that keeps its safe answer, and is a note if it is not sure. Pure.
 */
export function selectQuestions(sources: readonly ProposedSource[]): ProposedSource[] {
  const open = sources.filter(({ questions }) => questions.length > 0)
  const shown = new Set(open.toSorted((a, b) => (b.rows ?? 0) - (a.rows ?? 0)).slice(0, MAX_SOURCES))
  return sources.map((source) => {
    const ranked = source.questions.toSorted(
      (a, b) =>
        Number(a.isSure) - Number(b.isSure) ||
        Number(b.isUnderstood) - Number(a.isUnderstood) ||
        Number(a.isOfOther) - Number(b.isOfOther) ||
        Number(b.isLeftOut) - Number(a.isLeftOut) ||
        b.leftOut - a.leftOut,
    )
    const choices = shown.has(source) ? MAX_CHOICES : 0
    const rest = ranked.slice(choices)
    const isLeft = ({ isLeftOut, isUnderstood }: Question): boolean => isLeftOut && isUnderstood
    const list = (title: string, isLeftOut: boolean): string[] => {
      const some = rest.filter((one) => !one.isSure && isLeft(one) === isLeftOut)
      return some.length === 0 ? [] : [`${title}: ${some.map(({ when }) => when).join('; ')}.`]
    }
    return {
      ...source,
      where: whereOf({ ...source, questions: rest }, isLeft),
      questions: ranked.slice(0, choices),
      notes: [
        ...source.notes,
        ...list('Left out to be safe', true),
        ...list('Not understood, and leaving no row out', false),
      ],
    }
  })
}

/** Which rows a source reads, with answers to its questions; without them, the safe ones. Pure. */
export const whereOf = (
  { where, questions }: Pick<ProposedSource, 'where' | 'questions'>,
  isLeftOut = (question: Question): boolean => question.isLeftOut,
): string | null => joinConditions([where, ...questions.filter(isLeftOut).map(({ keep }) => keep)])

/** A source with the answers of a person in place of its questions. Pure. */
export const answerQuestions = (
  source: ProposedSource,
  isLeftOut: (question: Question) => boolean,
): ProposedSource => ({ ...source, where: whereOf(source, isLeftOut), questions: [] })

const MAX_CONDITION_WIDTH = 76

/** SQL: all of the conditions, on one line if they are short; null if there are none. Pure. */
export function joinConditions(conditions: readonly (string | null)[]): string | null {
  const some = [...new Set(conditions.filter((one) => one !== null))]
  if (some.length === 0) return null
  const line = some.join(' and ')
  return line.length <= MAX_CONDITION_WIDTH ? line : some.join('\nand ')
}
