// Preloaded into a measured process: reports its peak memory (in KiB) to its parent when it exits.
process.on('exit', () => process.send?.({ maxRss: process.resourceUsage().maxRSS }))
process.channel?.unref()
