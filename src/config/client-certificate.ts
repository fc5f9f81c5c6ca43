import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { EnvValue } from './env-values.ts'
import type { Problem } from './problems.ts'

/** What identifies this client in TLS, in PEM. */
export interface ClientCertificate {
  /** With the certificates of its issuers, if the file has them. */
  readonly cert: string
  readonly key: string
}

type ReadVariable = <Value>(name: string, parse: (text: string) => EnvValue<Value>) => Value | null

/**
 * Reads the files of the client's certificate and of its key, and checks that they fit each other.
 * @param variables their names
 * @param problems gets what is wrong; nothing there holds a part of the key
 */
export function readClientCertificate(
  variables: { readonly cert: string; readonly key: string },
  read: ReadVariable,
  problems: Problem[],
): ClientCertificate | null {
  const before = problems.length
  const cert = read(variables.cert, (path) =>
    readPem(path, 'a certificate in PEM, which begins with -----BEGIN CERTIFICATE-----', (pem) => {
      void new X509Certificate(pem)
    }),
  )
  const key = read(variables.key, (path) =>
    readPem(path, `the private key of ${variables.cert} in PEM, without a passphrase`, (pem) => {
      void createPrivateKey(pem)
    }),
  )
  if (problems.length > before || (cert === null && key === null)) return null
  if (cert === null || key === null) {
    const [place, other] = cert === null ? [variables.cert, variables.key] : [variables.key, variables.cert]
    problems.push({
      place,
      found: `not set, and ${other} is`,
      expected: 'both, or none: the paths of a certificate and of its key',
      todo: null,
    })
    return null
  }
  if (new X509Certificate(cert).checkPrivateKey(createPrivateKey(key))) return { cert, key }
  problems.push({
    place: variables.key,
    found: 'the key of another certificate',
    expected: `the private key of ${variables.cert}`,
    todo: 'If the file of the certificate has several, its own one stands first.',
  })
  return null
}

function readPem(path: string, expected: string, check: (pem: string) => void): EnvValue<string> {
  let pem = ''
  try {
    pem = readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const found =
      code === 'ENOENT' ? 'no such file' : code === 'EISDIR' ? 'a folder' : `not readable (${code})`
    return { ok: false, found: `${path}: ${found}`, expected: `the path of a file with ${expected}` }
  }
  try {
    check(pem)
    return { ok: true, value: pem }
  } catch {
    const isEncrypted = /^-----BEGIN ENCRYPTED|^Proc-Type: 4,ENCRYPTED/m.test(pem)
    return {
      ok: false,
      found: `${path}: ${isEncrypted ? 'a key with a passphrase' : 'something else'}`,
      expected,
      ...(isEncrypted && { todo: `Take the passphrase off: openssl pkey -in ${path} -out client.key` }),
    }
  }
}
