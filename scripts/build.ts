import { spawnSync } from 'node:child_process'
import { readdirSync, rmSync } from 'node:fs'
import { isAbsolute, join } from 'node:path'
import { rolldown } from 'rolldown'

const ROOT = join(import.meta.dirname, '..')

/**
 * Bundles the program's own modules in chunks that are loaded when they are needed: `fillrate status` of a bundle takes less
 * than half the processor time of the same modules in hundreds of files (docs/internals/performance.md). Packages are left
 * out, so that those run which npm has installed: what `npm ls`, `npm audit` and `overrides` say is true of the program.
 *
 * @param folder where to write; two levels below a package.json at most, because the program finds the assets from there
 * @param entries further entry points, as paths in the repository without their extension
 */
export async function bundleProgram(folder: string, entries: readonly string[] = []): Promise<void> {
  // The layout is that of the repository, because the code finds `migrations` and `src/index` relative to itself;
  // src/chunks is as deep as the folders of src.
  const migrations = readdirSync(join(ROOT, 'migrations')).map(
    (file) => `migrations/${file.replace(/\.ts$/, '')}`,
  )
  const bundle = await rolldown({
    cwd: ROOT,
    platform: 'node',
    input: Object.fromEntries(
      ['src/main', 'src/index', ...migrations, ...entries].map((name) => [name, `${name}.ts`]),
    ),
    // An entry point has no importer. The bundler writes helpers of its own for syntax that it lowers: they are no package.
    external: (id, importer) =>
      importer !== undefined &&
      !id.startsWith('.') &&
      !isAbsolute(id) &&
      !id.startsWith('@oxc-project/runtime'),
  })
  await bundle.write({
    dir: folder,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'src/chunks/[name]-[hash].js',
  })
  await bundle.close()
}

// Builds the published program into dist: npm run build. TypeScript writes the declarations, rolldown the code.
if (import.meta.main) {
  const dist = join(ROOT, 'dist')
  rmSync(dist, { recursive: true, force: true })
  const tsc = join(ROOT, 'node_modules/.bin/tsc')
  const { status } = spawnSync(tsc, ['-p', 'tsconfig.build.json'], { cwd: ROOT, stdio: 'inherit' })
  if (status !== 0) process.exit(1)
  await bundleProgram(dist)
}
