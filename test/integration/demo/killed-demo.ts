import { showSmallDemo } from './small-demo.ts'

/** A demo that is killed during its run, when emails are in jobs and single calls are in flight. */
await showSmallDemo({
  folder: process.argv[2] ?? '',
  onFrame: (frame) => {
    if (/[1-9]\d* (?:looked up|lookups)/.test(frame) && /[1-9]\d* in jobs/.test(frame))
      process.kill(process.pid, 'SIGKILL')
  },
})
