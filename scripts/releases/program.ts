import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import { rolldown } from 'rolldown'

const ROOT = join(import.meta.dirname, '../..')

/**
 * Packs the program of this checkout into one file, for tests that run it beside a later one. Without the packages that it
 * uses, which are two thirds of it: it finds those of the checkout in which it is unpacked.
 */
export async function packProgram(version: string, file: string): Promise<void> {
  const migrations = readdirSync(join(ROOT, 'migrations')).map(
    (name) => `migrations/${name.replace(/\.ts$/, '')}`,
  )
  const bundle = await rolldown({
    cwd: ROOT,
    platform: 'node',
    input: Object.fromEntries(['src/main', 'src/index', ...migrations].map((name) => [name, `${name}.ts`])),
    // Helpers of the compiler are no packages of the checkout.
    external: /^(?!@oxc-project)[@a-z]/,
    checks: { eval: false },
  })
  const { output } = await bundle.generate({
    format: 'esm',
    minify: true,
    entryFileNames: '[name].js',
    chunkFileNames: 'src/chunks/[name]-[hash].js',
  })
  await bundle.close()
  const files = Object.fromEntries(
    output.map((one) => [one.fileName, one.type === 'chunk' ? one.code : one.source]),
  )
  for (const name of readdirSync(join(ROOT, 'assets')).filter((one) => /\.(?:css|js|svg)$/.test(one)))
    files[`assets/${name}`] = readFileSync(join(ROOT, 'assets', name), 'utf8')
  const manifest = JSON.stringify({ name: 'fillrate', version, type: 'module' })
  const text = JSON.stringify({ 'package.json': manifest, ...files })
  writeFileSync(file, brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_LGWIN]: 24 } }))
}

/** @returns the path of its main module */
export function unpackProgram(packed: string, folder: string): string {
  const files = JSON.parse(brotliDecompressSync(readFileSync(packed)).toString('utf8')) as Record<
    string,
    string
  >
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return join(folder, 'src/main.js')
}
