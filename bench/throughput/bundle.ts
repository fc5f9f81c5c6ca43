import { bundleProgram } from '../../scripts/bundle.ts'

/**
 * Bundles the candidates, as Fillrate is published: users run a bundle, and start-up counts. The plain script is bundled as
 * well, which is to its advantage; the job queues read files beside their modules. In a process of its own: candidates
 * inherit the peak memory of the one that forks them. Its only argument is the folder.
 */
await bundleProgram(process.argv[2] ?? '', {
  entries: ['bench/throughput/candidate-process'],
  external: ['graphile-worker', 'pg-boss'],
})
