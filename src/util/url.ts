import { isIP } from 'node:net'

/**
 * Whether a host name or IP address, with or without brackets, is this machine.
 * @example isLoopbackHost('[::1]') // true
 */
export function isLoopbackHost(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '')
  return bare === 'localhost' || bare === '::1' || (isIP(bare) === 4 && bare.startsWith('127.'))
}

/**
 * Whether a URL points to this machine; false if it is not a URL.
 * @example isLoopbackUrl('http://127.0.0.1:8080/v1') // true
 */
export const isLoopbackUrl = (url: string): boolean => isLoopbackHost(URL.parse(url)?.hostname ?? '')
