// `FILLRATE_SEED=N` tries every property with the same cases; without it each run has others.
const seed = process.env['FILLRATE_SEED']
if (seed !== undefined) {
  const { default: fc } = await import('fast-check')
  fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: Number(seed) })
}
