/**
 * Everything that shows nothing: Unicode's White_Space, and the characters without width (zero-width space,
 * joiners, word joiner, byte order mark, Mongolian vowel separator). Postgres's own `\s` knows them only in some
 * locales.
 */
export const BLANKS =
  '\t\n\u000b\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a' +
  '\u2028\u2029\u202f\u205f\u3000\u180e\u200b\u200c\u200d\u2060\ufeff'
