import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createRequire, findPackageJSON } from 'node:module'
import { dirname, join } from 'node:path'
import type { FastifyInstance } from 'fastify'

const JS = 'text/javascript; charset=utf-8'
const CSS = 'text/css; charset=utf-8'

/** Our own files are beside `package.json`, both in a checkout and in an installed package. */
const assetPath = (name: string): string =>
  join(dirname(findPackageJSON(import.meta.url) ?? ''), 'assets', name)
const chartAssetPath = (name: string): string => createRequire(import.meta.url).resolve(`uplot/dist/${name}`)

const FILES: Readonly<Record<string, { readonly path: () => string; readonly type: string }>> = {
  'board.js': { path: () => assetPath('board.js'), type: JS },
  'board.css': { path: () => assetPath('board.css'), type: CSS },
  'icon.svg': { path: () => assetPath('icon.svg'), type: 'image/svg+xml' },
  'uplot.js': { path: () => chartAssetPath('uPlot.esm.js'), type: JS },
  'uplot.css': { path: () => chartAssetPath('uPlot.min.css'), type: CSS },
}

/** Scripts, styles and the icon. They are public, because the sign-in page needs them. */
export function registerAssets(server: FastifyInstance): void {
  for (const [name, { path, type }] of Object.entries(FILES)) {
    let file: Promise<{ body: Buffer; tag: string }> | null = null
    server.get(`/assets/${name}`, async (request, reply) => {
      const { body, tag } = await (file ??= readAsset(path()))
      reply.header('etag', tag).header('cache-control', 'no-cache').type(type)
      return request.headers['if-none-match'] === tag ? reply.code(304).send() : reply.send(body)
    })
  }
}

async function readAsset(path: string): Promise<{ body: Buffer; tag: string }> {
  const body = await readFile(path)
  return { body, tag: `"${createHash('sha256').update(body).digest('base64url').slice(0, 20)}"` }
}
