import pLimit from 'p-limit'
import pg from 'pg'
import { request } from 'undici'
import type { Outcome, Task } from './contender.ts'

interface Contact {
  id: number
  email: string
}

interface Person {
  title?: string
  phone?: string
  seniority?: string
  company?: { name?: string }
}

/**
 * What somebody writes in an afternoon: select the rows, ask for each with a bound on how many at once, and update
 * each, typed values kept. No retry, no rate limit, no resume; what is paid for is lost when it is interrupted.
 */
export async function runPlainScript(task: Task): Promise<Outcome> {
  const began = performance.now()
  let statements = 0
  const pool = new pg.Pool({ connectionString: task.databaseUrl })
  const limit = pLimit(task.concurrency)

  async function enrich(contact: Contact): Promise<void> {
    const answer = await request(`${task.service.url}/v1/person/enrich`, {
      method: 'POST',
      headers: { authorization: `Bearer ${task.service.keys[0]}`, 'content-type': 'application/json' },
      body: JSON.stringify({ email: contact.email }),
    })
    if (answer.statusCode === 404) {
      await answer.body.dump()
      return
    }
    if (answer.statusCode !== 200) throw new Error(`the service answered ${answer.statusCode}`)
    const person = (await answer.body.json()) as Person
    statements++
    await pool.query(
      `update crm.contacts
          set title = coalesce(title, $2), phone = coalesce(phone, $3), seniority = coalesce(seniority, $4),
              company = coalesce(company, $5), enriched_at = now()
        where id = $1`,
      [contact.id, person.title, person.phone, person.seniority, person.company?.name],
    )
  }

  statements++
  const { rows } = await pool.query<Contact>(
    `select id, email from crm.contacts
      where title is null or phone is null or seniority is null or company is null`,
  )
  await Promise.all(rows.map((contact) => limit(() => enrich(contact))))
  await pool.end()
  return { durationMs: performance.now() - began, statements }
}
