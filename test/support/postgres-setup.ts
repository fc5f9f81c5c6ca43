import type { TestProject } from 'vitest/node'
import { migrate } from '../../src/store/migrate.ts'
import { openDatabase } from '../../src/store/open.ts'
import { startEmbeddedPostgres } from './embedded-postgres.ts'
import { TEMPLATE, onServer } from './server.ts'

declare module 'vitest' {
  interface ProvidedContext {
    postgresUrl: string
  }
}

interface Server {
  readonly url: string
  stop(): Promise<void>
}

/** Uses TEST_DATABASE_URL, else a container, else an embedded Postgres, and creates the template that test files clone. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startServer()
  await onServer(server.url, async (client) => {
    await client.query(`drop database if exists ${TEMPLATE} with (force)`)
    await client.query(`create database ${TEMPLATE}`)
  })
  const url = new URL(server.url)
  url.pathname = `/${TEMPLATE}`
  const db = openDatabase({ url: url.href, max: 1 })
  await migrate(db)
  await db.destroy()
  project.provide('postgresUrl', server.url)
  return () => server.stop()
}

async function startServer(): Promise<Server> {
  const url = process.env['TEST_DATABASE_URL']
  if (url) return { url, stop: async () => {} }
  // Without fsync: with a real sync after each commit, a run takes twice as long.
  return (
    (await startContainer()) ??
    (await startEmbeddedPostgres([
      'fsync=off',
      'synchronous_commit=off',
      'max_connections=200',
      'max_prepared_transactions=5',
    ]))
  )
}

async function startContainer(): Promise<Server | null> {
  const { getContainerRuntimeClient } = await import('testcontainers')
  try {
    await getContainerRuntimeClient()
  } catch {
    return null // no Docker engine
  }
  const { PostgreSqlContainer } = await import('@testcontainers/postgresql')
  const container = await new PostgreSqlContainer('postgres:18-alpine')
    .withCommand(['postgres', '-c', 'max_prepared_transactions=5'])
    .start()
  return {
    url: container.getConnectionUri(),
    stop: async () => {
      await container.stop()
    },
  }
}
