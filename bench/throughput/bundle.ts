import { bundleProgram } from '../../scripts/build.ts'

/**
 * Bundles the candidates, as Fillrate is published: users run a bundle, and start-up counts. In a process of its own:
 * candidates inherit the peak memory of the one that forks them. Its only argument is the folder.
 */
await bundleProgram(process.argv[2] ?? '', ['bench/throughput/candidate-process'])
