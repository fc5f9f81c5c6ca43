/** To lease emails, after what can only be requested singly. */
export const BULK = [{ kinds: ['email'], singly: true }] as const
