import { showSmallDemo } from './small-demo.ts'

/** A demo killed during its run, when its jobs are done and single calls are in flight. */
await showSmallDemo({
  folder: process.argv[2] ?? '',
  json: true,
  onFrame: (frame) => {
    if (
      /[1-9]\d* (?:looked up|lookups)/.test(frame) &&
      /[1-9]\d* in jobs/.test(frame) &&
      !/jobs? out/.test(frame)
    )
      process.kill(process.pid, 'SIGKILL')
  },
})
