/** One instruction of a Dockerfile. */
export interface Step {
  readonly word: string
  /** Its arguments without flags. */
  readonly rest: readonly string[]
  readonly text: string
  /** `COPY --from=`. */
  readonly from: string | null
}

/** The stages of a Dockerfile, in order; the last one is the image. Supports only what ours uses. Pure. */
export function dockerfileStages(text: string): ReadonlyMap<string, readonly Step[]> {
  const lines = text
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
  const stages = new Map<string, Step[]>()
  let steps: Step[] = []
  for (const line of lines) {
    const [word = '', ...all] = line.split(/\s+/)
    if (word === 'FROM') {
      steps = []
      stages.set(/ AS (\S+)$/.exec(line)?.[1] ?? 'image', steps)
    }
    const flags = all.filter((one) => one.startsWith('--from='))
    steps.push({
      word,
      rest: all.filter((one) => !flags.includes(one)),
      text: line.slice(word.length).trim(),
      from: flags[0]?.slice('--from='.length) ?? null,
    })
  }
  return stages
}
