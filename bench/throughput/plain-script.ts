import pLimit from 'p-limit'
import pg from 'pg'
import { request } from 'undici'
import type { Outcome, Task } from './candidate.ts'

export interface Contact {
  id: number
  email: string
}

interface Person {
  title?: string
  phone?: string
  seniority?: string
  company?: { name?: string }
}

/** The rows that lack something. */
export const UNENRICHED = `from crm.contacts where title is null or phone is null or seniority is null or company is null`

/** Requests one contact, and writes what it lacks. No retry, no rate limit; typed values stay. */
export async function enrichContact(
  task: Task,
  contact: Contact,
  query: (text: string, values: unknown[]) => Promise<unknown>,
): Promise<void> {
  const response = await request(`${task.service.url}/v1/person/enrich`, {
    method: 'POST',
    headers: { authorization: `Bearer ${task.service.keys[0]}`, 'content-type': 'application/json' },
    body: JSON.stringify({ email: contact.email }),
  })
  if (response.statusCode === 404) {
    await response.body.dump()
    return
  }
  if (response.statusCode !== 200) throw new Error(`the service answered ${response.statusCode}`)
  const person = (await response.body.json()) as Person
  await query(
    `update crm.contacts
        set title = coalesce(title, $2), phone = coalesce(phone, $3), seniority = coalesce(seniority, $4),
            company = coalesce(company, $5), enriched_at = now()
      where id = $1`,
    [contact.id, person.title, person.phone, person.seniority, person.company?.name],
  )
}

/**
 * A script as one writes it in an afternoon: selects the rows, requests each with bounded concurrency, and updates each.
 * No resume; billed answers are lost when it is interrupted.
 */
export async function runPlainScript(task: Task): Promise<Outcome> {
  const startedAt = performance.now()
  let statements = 0
  const pool = new pg.Pool({ connectionString: task.databaseUrl })
  const limit = pLimit(task.concurrency)
  const query = (text: string, values: unknown[] = []): Promise<pg.QueryResult<Contact>> => {
    statements++
    return pool.query<Contact>(text, values)
  }
  const { rows } = await query(`select id, email ${UNENRICHED}`)
  await Promise.all(rows.map((contact) => limit(() => enrichContact(task, contact, query))))
  await pool.end()
  return { durationMs: performance.now() - startedAt, statements }
}
