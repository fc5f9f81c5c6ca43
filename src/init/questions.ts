import type { ProposedSource, Question } from './proposal.ts'
import type { RowFlag } from './flag-sql.ts'

/** A person answers a few questions; the rest is a note in the file. */
const MAX_QUESTIONS = 7

/** The flags of which it is not sure, with how many of the sampled rows each would leave out. Pure. */
export function toQuestions(
  flags: readonly RowFlag[],
  leftOut: readonly number[],
  sampled: number,
): Question[] {
  const all = flags.flatMap(({ column, keep, when, meaning }, n) => {
    const count = leftOut[n] ?? 0
    // A flag that is set for all of them, or for none, decides nothing.
    if (sampled > 0 && (count === 0 || count === sampled)) return []
    return [{ meaning, question: { about: column, keep, when, leftOut: count, isLeftOut: meaning !== null } }]
  })
  const objections = all.flatMap(({ meaning, question }) => (meaning === 'objection' ? [question] : []))
  const others = all.flatMap(({ meaning, question }) => (meaning === 'objection' ? [] : [question]))
  return objections.length < 2 ? all.map(({ question }) => question) : [joinObjections(objections), ...others]
}

/** One question for all channels. */
const joinObjections = (objections: readonly Question[]): Question => ({
  about: 'objections',
  when: objections.map(({ when }) => when).join(', or '),
  keep: objections.map(({ keep }) => keep).join(' and '),
  leftOut: Math.max(...objections.map(({ leftOut }) => leftOut)),
  isLeftOut: true,
})

/**
 * The questions about a database, at most seven: those that look like a reason to leave rows out, then those that
 * concern most rows. One about the same column of several sources counts once. What is beyond that keeps its safe answer, and is
 * a note. Pure.
 */
export function selectQuestions(sources: readonly ProposedSource[]): ProposedSource[] {
  const all = new Map<string, Question>()
  for (const { questions } of sources)
    for (const one of questions) {
      const known = all.get(one.about)
      if (known === undefined || known.leftOut < one.leftOut) all.set(one.about, one)
    }
  const ranked = [...all.values()].toSorted(
    (a, b) => Number(b.isLeftOut) - Number(a.isLeftOut) || b.leftOut - a.leftOut,
  )
  const chosen = new Set(ranked.slice(0, MAX_QUESTIONS).map(({ about }) => about))
  return sources.map((source) => {
    const rest = source.questions.filter(({ about }) => !chosen.has(about))
    const left = rest.filter(({ isLeftOut }) => isLeftOut)
    const kept = rest.filter(({ isLeftOut }) => !isLeftOut).map(({ about }) => about)
    return {
      ...source,
      where: joinConditions([source.where, ...left.map(({ keep }) => keep)]),
      questions: source.questions.filter(({ about }) => chosen.has(about)),
      notes: [
        ...source.notes,
        ...(left.length === 0 ? [] : [`Left out to be safe: ${left.map(({ when }) => when).join('; ')}.`]),
        ...(kept.length === 0 ? [] : [`Not understood, and leaving no row out: ${kept.join(', ')}.`]),
      ],
    }
  })
}

/** Which rows a source reads, with the safe answers to its questions. Pure. */
export const whereOf = ({ where, questions }: Pick<ProposedSource, 'where' | 'questions'>): string | null =>
  joinConditions([where, ...questions.flatMap(({ isLeftOut, keep }) => (isLeftOut ? [keep] : []))])

/** A source with the answers of a person in place of its questions. Pure. */
export const answerQuestions = (
  source: ProposedSource,
  isLeftOut: (question: Question) => boolean,
): ProposedSource => ({
  ...source,
  where: joinConditions([
    source.where,
    ...source.questions.flatMap((one) => (isLeftOut(one) ? [one.keep] : [])),
  ]),
  questions: [],
})

const MAX_CONDITION_WIDTH = 76

/** SQL: all of the conditions, on one line if they are short; null if there are none. Pure. */
export function joinConditions(conditions: readonly (string | null)[]): string | null {
  const some = conditions.filter((one) => one !== null)
  if (some.length === 0) return null
  const line = some.join(' and ')
  return line.length <= MAX_CONDITION_WIDTH ? line : some.join('\nand ')
}
