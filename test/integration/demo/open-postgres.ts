import { openPostgres } from '../../../src/demo/postgres/open.ts'

/** Opens the demo's Postgres, says so, and holds it until it is killed: a demo that dies. */
const postgres = await openPostgres(process.argv[2] ?? '', process.env)
process.stdout.write(`${JSON.stringify({ url: postgres.url })}\n`)
setInterval(() => {}, 60_000)
