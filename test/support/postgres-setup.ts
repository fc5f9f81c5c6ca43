import { statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import type { TestProject } from 'vitest/node'
import { startEmbeddedPostgres } from './embedded-postgres.ts'
import { createTemplate } from './server.ts'

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
  await createTemplate(server.url)
  project.provide('postgresUrl', server.url)
  return () => server.stop()
}

/**
 * No test crashes this server's machine. With a real sync after each commit, a run takes twice as long; whole pages in the
 * WAL after each cloned database, and a large shared memory for each of 3,000 connections, cost a tenth.
 */
const SETTINGS = [
  'fsync=off',
  'synchronous_commit=off',
  'full_page_writes=off',
  'shared_buffers=32MB',
  'max_connections=300',
  'max_prepared_transactions=5',
]

async function startServer(): Promise<Server> {
  const url = process.env['TEST_DATABASE_URL']
  if (url) return { url, stop: async () => {} }
  return (
    (await startContainer()) ?? (await startEmbeddedPostgres(SETTINGS, { folder: await findMemoryFolder() }))
  )
}

/**
 * A folder in memory if there is one with room for a test run, which needs 400 MB: creating and dropping a database there
 * takes half the processor time.
 */
async function findMemoryFolder(): Promise<string> {
  const free = await statfs(MEMORY_FOLDER).then(
    ({ bavail, bsize }) => bavail * bsize,
    () => 0,
  )
  return free >= MEMORY_NEEDED_BYTES ? MEMORY_FOLDER : tmpdir()
}

const MEMORY_FOLDER = '/dev/shm'
const MEMORY_NEEDED_BYTES = 4e9

async function startContainer(): Promise<Server | null> {
  const { getContainerRuntimeClient } = await import('testcontainers')
  try {
    await getContainerRuntimeClient()
  } catch {
    return null // no Docker engine
  }
  const { PostgreSqlContainer } = await import('@testcontainers/postgresql')
  const container = await new PostgreSqlContainer(process.env['TEST_POSTGRES_IMAGE'] ?? 'postgres:18-alpine')
    .withCommand(['postgres', ...SETTINGS.flatMap((setting) => ['-c', setting])])
    .start()
  return {
    url: container.getConnectionUri(),
    stop: async () => {
      await container.stop()
    },
  }
}
