import { openPostgres } from '../../../src/demo/postgres/open.ts'

/** Opens the demo's Postgres, reports it, and holds it until killed. */
const postgres = await openPostgres(process.argv[2] ?? '', process.env)
process.stdout.write(`${JSON.stringify({ url: postgres.url })}\n`)
setInterval(() => {}, 60_000)
