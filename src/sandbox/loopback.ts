/**
 * The webhook address as a URL, or the reason why the sandbox does not deliver to it. Only this machine is
 * ever a target: a sandbox that posted to any address it was given would be a way to reach other people's.
 */
export function webhookAddress(text: string): URL | string {
  const url = URL.parse(text)
  if (url === null) return 'webhook_url is not a URL'
  if (url.protocol !== 'http:')
    return `webhook_url is ${url.protocol}, and the sandbox delivers over http: only`
  const host = url.hostname
  if (host === 'localhost' || host === '[::1]' || /^127\.\d+\.\d+\.\d+$/.test(host)) return url
  return `webhook_url has the host ${host}, and the sandbox delivers only to this machine (127.0.0.1, [::1], localhost)`
}
