import { address } from './html.ts'

/** Where one row's story is told. */
export const rowAddress = ({ source, key }: { readonly source: string; readonly key: string }): string =>
  address('/row', { source, key })
