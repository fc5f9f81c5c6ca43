import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createRequire, findPackageJSON } from 'node:module'
import { dirname, join } from 'node:path'
import fastifyStatic from '@fastify/static'
import type { FastifyInstance } from 'fastify'

/** Our own files are beside `package.json`, both in a checkout and in an installed package. */
const OWN = join(dirname(findPackageJSON(import.meta.url) ?? ''), 'assets')
const CHART = dirname(createRequire(import.meta.url).resolve('uplot/dist/uPlot.esm.js'))

/** The served files by name: no other file of these folders is public. */
const FILES: Readonly<Record<string, readonly [folder: string, file: string]>> = {
  'board.js': [OWN, 'board.js'],
  'board.css': [OWN, 'board.css'],
  'icon.svg': [OWN, 'icon.svg'],
  'uplot.js': [CHART, 'uPlot.esm.js'],
  'uplot.css': [CHART, 'uPlot.min.css'],
}

/**
 * Registers scripts, styles and the icon. They need no token, because the sign-in page uses them. The ETag is a hash of the
 * content: the plugin's own is size and time, and npm gives the files of every release the same time.
 */
export async function registerAssets(server: FastifyInstance): Promise<void> {
  await server.register(fastifyStatic, {
    root: OWN,
    serve: false,
    cacheControl: false,
    lastModified: false,
    etag: false,
  })
  for (const [name, [folder, file]] of Object.entries(FILES)) {
    const content = await readFile(join(folder, file))
    const etag = `"${createHash('sha256').update(content).digest('base64url').slice(0, 22)}"`
    server.get(`/assets/${name}`, (request, reply) => {
      reply.header('cache-control', 'no-cache').header('etag', etag)
      return request.headers['if-none-match'] === etag ? reply.code(304).send() : reply.sendFile(file, folder)
    })
  }
}
