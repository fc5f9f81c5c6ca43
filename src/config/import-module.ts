import { createRequire, registerHooks } from 'node:module'
import { extname } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

/** Marks a URL as read for one load, so that the next load reads the file again and not Node's cache. */
export const readingMark = 'fillrate-read'

/** What `import 'fillrate'` gives: `src/index.ts` in a checkout, `dist/src/index.js` when installed. */
const ourselves = new URL(`../index${extname(import.meta.url)}`, import.meta.url).href

let loads = 0

/**
 * Imports a configuration module, and gives its default export.
 *
 * For as long as it loads, `fillrate` means this very copy, so that a configuration works where the package
 * is installed globally, and in a checkout that has not been built. TypeScript is read as an ES module
 * whatever the nearest package.json says, since `import … from 'fillrate'` is one. What the module imports by
 * a path of its own is read anew each time as well (a SIGHUP reads the configuration again).
 *
 * @throws whatever the module throws, and Node's errors about a module that it can't read
 */
export async function importDefault(path: string, source: string): Promise<unknown> {
  const url = pathToFileURL(path)
  url.searchParams.set(readingMark, String(++loads))
  // A CommonJS module stays in a cache of its own, which knows no queries.
  Reflect.deleteProperty(createRequire(import.meta.url).cache, path)
  const hooks = registerHooks({
    resolve(specifier, context, next) {
      if (specifier === 'fillrate') return { url: ourselves, shortCircuit: true }
      const resolved = next(specifier, context)
      const mark = markOf(context.parentURL)
      const isOwn = resolved.url.startsWith('file:') && !resolved.url.includes('/node_modules/')
      if (resolved.url !== url.href && (mark === null || !isOwn)) return resolved
      const marked = new URL(resolved.url)
      if (mark !== null) marked.searchParams.set(readingMark, mark)
      const format = formatOf(marked, marked.href === url.href ? source : null)
      return { ...resolved, url: marked.href, ...(format === null ? {} : { format }) }
    },
  })
  try {
    const module: unknown = await import(url.href)
    if (typeof module !== 'object' || module === null || !('default' in module)) return undefined
    return await module.default
  } finally {
    hooks.deregister()
  }
}

function markOf(parentUrl: string | undefined): string | null {
  return parentUrl === undefined ? null : (URL.parse(parentUrl)?.searchParams.get(readingMark) ?? null)
}

/**
 * JavaScript that is an ES module is read as TypeScript too, which it is: Node tells the place of a syntax
 * error in TypeScript only. Null: as Node decides.
 */
function formatOf(url: URL, source: string | null): string | null {
  if (/\.m?ts$/.test(url.pathname)) return 'module-typescript'
  return source !== null && /^\s*(?:import|export)\b/m.test(source) ? 'module-typescript' : null
}

/** The file that a frame of a stack names, without our mark. */
export function pathOfFrame(frame: string): string {
  const url = URL.parse(frame)
  return url?.protocol === 'file:' ? fileURLToPath(url) : frame.replace(/\?.*$/, '')
}
