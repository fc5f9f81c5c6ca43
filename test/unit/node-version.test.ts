import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { describe, expect, test } from 'vitest'

const MAIN = resolve(import.meta.dirname, '../../src/main.ts')
const { engines } = JSON.parse(readFileSync(resolve(import.meta.dirname, '../../package.json'), 'utf8')) as {
  engines: { node: string }
}

/** Starts the program on a Node that claims this version. */
function startOn(version: string): { status: number | null; stdout: string; stderr: string } {
  const claim = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })`
  const preload = `data:text/javascript,${encodeURIComponent(claim)}`
  return spawnSync(process.execPath, ['--import', preload, MAIN, '--version'], { encoding: 'utf8' })
}

describe('the version of Node', () => {
  test.each(['18.19.1', '20.20.2', '22.21.9'])('%s is rejected in one line, with exit code 2', (version) => {
    const { status, stdout, stderr } = startOn(version)
    expect(stderr).toBe(
      `fillrate: Node 22.22 or newer is required; this is ${version} (${process.execPath}).\n`,
    )
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' })
  })

  test.each(['22.22.0', '24.0.0'])('%s starts', (version) => {
    expect(startOn(version)).toMatchObject({ status: 0, stderr: '' })
  })

  test('the minimum is that of package.json', () => {
    expect(engines.node).toBe('>=22.22')
    expect(readFileSync(MAIN, 'utf8')).toContain('const MINIMUM = [22, 22]')
  })

  test('main.ts imports nothing before it checks the version', () => {
    expect(readFileSync(MAIN, 'utf8')).not.toMatch(/^(import\s[^(]|export\s.*from)/m)
  })
})
