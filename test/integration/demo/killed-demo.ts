import { showSmallDemo } from './small-demo.ts'

/**
 * A demo killed during its run, when emails went in jobs and single calls are in flight. Jobs that are out then are lost with
 * the sandbox, and their people are looked up singly after the jobs' deadline.
 */
await showSmallDemo({
  folder: process.argv[2] ?? '',
  json: true,
  onFrame: (frame) => {
    if (/[1-9]\d* (?:looked up|lookups)/.test(frame) && /[1-9]\d* in jobs/.test(frame))
      process.kill(process.pid, 'SIGKILL')
  },
})
