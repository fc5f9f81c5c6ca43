import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { matchResults } from '../../../src/domain/matching.ts'

const emails = ['a@x.example', 'b@x.example', 'c@x.example']
const result = (requestId: string | null, ...names: readonly (string | null | undefined)[]) => ({
  requestId,
  names: names.filter((name) => name != null),
})

describe('a result is matched to its input by', () => {
  test('the identifiers in the 202, as a map, or as a list whose order is declared', () => {
    const results = [result('r3'), result('r1'), result('r2')]
    const list = { identifiers: emails, requestIds: ['r1', 'r2', 'r3'], isOrdered: true }
    expect(matchResults(list, results)).toEqual([2, 0, 1])
    const map = { 'a@x.example': 'r1', 'B@x.example': 'r2', 'c@x.example': 'r3' }
    expect(matchResults({ identifiers: emails, requestIds: map }, results)).toEqual([2, 0, 1])
  })
  test('the email itself as identifier, in any case', () => {
    expect(
      matchResults({ identifiers: emails, requestIds: null }, [result('C@X.example'), result('a@x.example')]),
    ).toEqual([2, 0])
  })
  test('the email in its data', () => {
    expect(
      matchResults({ identifiers: emails, requestIds: null }, [
        result('x', 'b@x.example'),
        result('y', 'a@x.example'),
      ]),
    ).toEqual([1, 0])
  })
  test('its position, if that is declared, the counts are equal and nothing contradicts it', () => {
    const results = [result('x'), result('y', 'b@x.example'), result('z')]
    expect(matchResults({ identifiers: emails, requestIds: null, isOrdered: true }, results)).toEqual([
      0, 1, 2,
    ])
  })
  test('a number that counts the inputs from 0 or 1, if that is declared', () => {
    const job = { identifiers: emails, requestIds: null, isOrdered: true }
    expect(matchResults(job, [result('2'), result('0'), result('1')])).toEqual([2, 0, 1])
    expect(matchResults(job, [result('3'), result('1'), result('2')])).toEqual([2, 0, 1])
  })
  test('elimination: all others stand at the places of the inputs that they name', () => {
    const results = [result('x', emails[0]), result('y'), result('z', emails[2])]
    expect(matchResults({ identifiers: emails, requestIds: null }, results)).toEqual([0, 1, 2])
    expect(matchResults({ identifiers: emails.slice(0, 1), requestIds: null }, [result('x')])).toEqual([0])
  })
})

describe('the misses that are left', () => {
  const miss = (requestId: string | null) => ({ ...result(requestId), isMiss: true })
  const job = { identifiers: [...emails, 'd@x.example'], requestIds: null }
  const [a, b] = [result('ra', 'a@x.example'), result('rb', 'b@x.example')]

  test('are those of the inputs that are left, where there is a result for each and all others are named', () => {
    expect(matchResults(job, [miss('x'), b, miss('y'), a])).toEqual([2, 1, 3, 0])
    expect(matchResults(job, [miss(null), b, miss(null), a])).toEqual([2, 1, 3, 0])
  })
  test('are nothing of the job where a result is missing, may be a record, or is of another job', () => {
    const unmatched = (...results: Parameters<typeof matchResults>[1][number][]) =>
      matchResults(job, results).filter((member) => member === null).length
    expect(unmatched(miss('x'), b, a)).toBe(1)
    expect(unmatched(miss('x'), b, result('y'), a)).toBe(2)
    expect(unmatched(miss('x'), b, miss('other@y.example'), a)).toBe(2)
    expect(unmatched(miss('x'), miss('y'), miss('z'), miss('w'))).toBe(4)
    expect(matchResults(job, [miss('x'), b, miss('y'), a], false)).toEqual([null, 1, null, 0])
    const given = {
      ...job,
      requestIds: { 'a@x.example': 'ra', 'b@x.example': 'rb', 'c@x.example': 'rc', 'd@x.example': 'rd' },
    }
    expect(matchResults(given, [miss('x'), b, miss('rd'), a])).toEqual([null, 1, 3, 0])
    // A member that was erased is known by nothing.
    const erased = { ...job, identifiers: [...emails, ''] }
    expect(matchResults(erased, [miss('x'), b, miss('y'), a])).toEqual([null, 1, null, 0])
  })
})

describe('an order that is not declared', () => {
  const many = Array.from({ length: 100 }, (_, n) => `p${n}@x.example`)
  const ids = many.map((_, n) => `r${n}`)
  const named = (places: readonly number[]) =>
    ids.map((id, n) => result(id, places.includes(n) ? many[n] : null))
  const all = many.map((_, n) => n)

  test('is proven by results that name their inputs, and stand at their places too often for chance', () => {
    for (const requestIds of [null, ids]) {
      expect(matchResults({ identifiers: many, requestIds }, named([3, 50, 99]))).toEqual(all)
      const tooFew = matchResults({ identifiers: many, requestIds }, named([3, 50]))
      expect(tooFew).toEqual(all.map((n) => (n === 3 || n === 50 ? n : null)))
    }
  })
  test('proves nothing where no result names its input: they may come as they became ready', () => {
    const numbers = ids.map((_, n) => result(String(n)))
    for (const results of [named([]), numbers, many.map(() => result(null))]) {
      expect(matchResults({ identifiers: many, requestIds: null }, results)).toEqual(many.map(() => null))
      // A sorted list is no order of submission either.
      expect(matchResults({ identifiers: many, requestIds: ids.toSorted() }, results)).toEqual(
        many.map(() => null),
      )
    }
  })
  test('is used for no record that comes twice without a name: one may stand in the place of a lost result', () => {
    const record = (n: number, isNamed: boolean) => ({
      ...result(null, isNamed ? many[n] : null),
      content: { title: `Title of ${n}` },
    })
    // The result of the last input was lost, and that of the third one repeated.
    const results = all.map((n) => record(n === 99 ? 2 : n, n % 2 === 1 && n !== 99))
    const twice = new Set([2, 99])
    const job = { identifiers: many, requestIds: null }
    expect(matchResults(job, results)).toEqual(all.map((n) => (twice.has(n) ? null : n)))
    // A service that declares the order loses nothing, and two people may have the same title.
    expect(matchResults({ ...job, isOrdered: true }, results)).toEqual(all)
  })
  test('of a list of identifiers is disproved by one result that names the input of another place', () => {
    const sorted = ids.toSorted()
    const results = named([0, 1, 10, 11])
    const places = matchResults({ identifiers: many, requestIds: sorted }, results)
    expect(places).toEqual(all.map((n) => ([0, 1, 10, 11].includes(n) ? n : null)))
  })
})

test('10,000 results that share one identifier are read once each', () => {
  let read = 0
  const results = Array.from({ length: 10_000 }, (_, n) => ({
    ...result('r1'),
    get content() {
      read++
      return { n }
    },
  }))
  expect(
    matchResults({ identifiers: emails, requestIds: { [emails[0] ?? '']: 'r1' } }, results).every(
      (at) => at === null,
    ),
  ).toBe(true)
  expect(read).toBe(results.length)
})

describe('a result is not matched by its position', () => {
  const none = [null, null, null]
  test('if a known one is elsewhere', () => {
    const results = [result('x', 'b@x.example'), result('y'), result('z')]
    expect(matchResults({ identifiers: emails, requestIds: null }, results)).toEqual([1, null, null])
  })
  test('if one names an address that was not submitted', () => {
    const byData = [result('x', 'z@z.example'), result('y'), result('z')]
    expect(matchResults({ identifiers: emails, requestIds: null }, byData)).toEqual(none)
    const byId = [result('z@z.example'), result('y'), result('z')]
    expect(matchResults({ identifiers: emails, requestIds: null }, byId)).toEqual(none)
  })
  test('if the counts differ, or the job of the delivery is uncertain', () => {
    const results = [result('x'), result('y'), result('z')]
    expect(matchResults({ identifiers: emails, requestIds: null }, results.slice(1))).toEqual([null, null])
    expect(matchResults({ identifiers: emails, requestIds: null }, results, false)).toEqual(none)
    expect(matchResults({ identifiers: emails, requestIds: ['x', 'y', 'z'] }, results, false)).toEqual(none)
  })
  test('if the results are not in the order of the identifiers in the 202, though it lists only some', () => {
    const requestIds = ['r1', 'r3']
    const disordered = [result('r3'), result('e2'), result('r1')]
    expect(matchResults({ identifiers: emails, requestIds, isOrdered: true }, disordered)).toEqual(none)
    const inOrder = [result('r1'), result('e2'), result('r3')]
    expect(matchResults({ identifiers: emails, requestIds, isOrdered: true }, inOrder)).toEqual([0, 1, 2])
  })
  test('if the 202 named every member, and this is none of its identifiers', () => {
    const results = [result('r1'), result('r2'), result('q9')]
    const job = { identifiers: emails, requestIds: ['r1', 'r2', 'r3'], isOrdered: true }
    expect(matchResults(job, results)).toEqual([0, 1, null])
  })
})

describe('a list of identifiers in the 202', () => {
  test('that is shorter than the job implies no order: the service rejected an address', () => {
    const results = [result('r1', 'b@x.example'), result('r2', 'c@x.example')]
    expect(matchResults({ identifiers: emails, requestIds: ['r1', 'r2'] }, results)).toEqual([1, 2])
    expect(
      matchResults({ identifiers: emails, requestIds: ['r1', 'r2'] }, [result('r1'), result('r2')]),
    ).toEqual([null, null])
  })
  test('of addresses names these addresses, in any order', () => {
    const sorted = emails.toReversed()
    const results = emails.map((email) => result(email, email))
    expect(matchResults({ identifiers: emails, requestIds: sorted }, results)).toEqual([0, 1, 2])
    expect(matchResults({ identifiers: emails, requestIds: sorted }, [result('c@x.example')])).toEqual([2])
  })
  test('whose order is disproved by one data.email is not used for the others', () => {
    const requestIds = ['r3', 'r1', 'r2']
    const results = [result('r1', 'a@x.example'), result('r2'), result('r3', 'c@x.example')]
    expect(matchResults({ identifiers: emails, requestIds }, results.slice(0, 2))).toEqual([0, null])
  })
  test('with a misplaced address or a duplicate identifier is not used', () => {
    expect(
      matchResults({ identifiers: emails, requestIds: ['r1', 'a@x.example', 'r3'] }, [result('r3')]),
    ).toEqual([null])
    expect(matchResults({ identifiers: emails, requestIds: ['r1', 'r1', 'r3'] }, [result('r3')])).toEqual([
      null,
    ])
  })
})

describe('a contradictory result is used for no input', () => {
  test('an identifier of one member beside the data.email of another', () => {
    expect(
      matchResults({ identifiers: emails, requestIds: null }, [result('a@x.example', 'b@x.example')]),
    ).toEqual([null])
    const map = { 'a@x.example': 'r1' }
    expect(matchResults({ identifiers: emails, requestIds: map }, [result('r1', 'b@x.example')])).toEqual([
      null,
    ])
  })
  test('one identifier for two results, unless their data.email decides', () => {
    const requestIds = ['r1', 'r2', 'r3']
    const both = [result('r1'), { ...result('r1'), content: { title: 'other' } }]
    expect(matchResults({ identifiers: emails, requestIds }, both)).toEqual([null, null])
    const named = [result('r1', 'a@x.example'), { ...result('r1'), content: { title: 'other' } }]
    expect(matchResults({ identifiers: emails, requestIds }, named)).toEqual([0, null])
  })
  test('but a duplicate result counts once', () => {
    const twice = [result('r1'), result('r1'), result('r2')]
    expect(
      matchResults({ identifiers: emails, requestIds: ['r1', 'r2', 'r3'], isOrdered: true }, twice),
    ).toEqual([0, 0, 1])
  })
})

describe('the only result of a single lookup that was accepted for later', () => {
  test('is matched, also if the record has another address or the lookup none', () => {
    const other = [result('x', 'other@y.example')]
    expect(matchResults({ identifiers: [''], requestIds: null, isSingle: true }, other)).toEqual([0])
    expect(matchResults({ identifiers: ['a@x.example'], requestIds: null, isSingle: true }, other)).toEqual([
      0,
    ])
    expect(matchResults({ identifiers: ['a@x.example'], requestIds: null }, other)).toEqual([null])
  })

  test('is not, if it is named after another address', () => {
    const named = [result('b@x.example', 'b@x.example')]
    expect(matchResults({ identifiers: ['a@x.example'], requestIds: null, isSingle: true }, named)).toEqual([
      null,
    ])
    expect(matchResults({ identifiers: [''], requestIds: null, isSingle: true }, named)).toEqual([0])
  })
})

test('an address matches in any form of its host', () => {
  const job = { identifiers: ['ada@xn--bcher-kva.example', 'b@x.example'], requestIds: null }
  expect(matchResults(job, [result('q', ' Ada@Bücher.example ')])).toEqual([0])
})

describe('a job of other inputs', () => {
  const [ada, bob] = ['https://www.linkedin.com/in/ada', 'https://www.linkedin.com/in/bob']
  const byName = ['', '', '']

  test('two generated profiles that differ in case alone are two people', () => {
    const slug = 'ABcDeFgHiJkLmNoPqRsTuVwXyZ0123456789'
    const identifiers = ['ACwA', 'ACoA'].flatMap((first) => [
      `https://www.linkedin.com/in/${first}${slug}`,
      `https://www.linkedin.com/in/${first}${slug.replace('z', 'Z').replace('B', 'b')}`,
    ])
    expect(
      matchResults(
        { identifiers, requestIds: null },
        identifiers.map((url) => result(url)),
      ),
    ).toEqual([0, 1, 2, 3])
  })
  test('matches a profile URL or a domain as identifier, in any form', () => {
    const profiles = { identifiers: [ada, bob], requestIds: null }
    const results = [result('http://linkedin.com/in/Bob/?x=1'), result('https://no.linkedin.com/in/ada')]
    expect(matchResults(profiles, results)).toEqual([1, 0])
    const domains = { identifiers: ['acme.com', 'xn--bcher-kva.example'], requestIds: null }
    expect(matchResults(domains, [result('https://www.bücher.example/about'), result('ACME.com')])).toEqual([
      1, 0,
    ])
  })
  test('matches what a record says of itself, and the identifiers that the 202 gave', () => {
    expect(
      matchResults({ identifiers: [ada, bob], requestIds: null }, [result('x', 'linkedin.com/in/bob')]),
    ).toEqual([1])
    const domains = ['acme.com', 'beta.com']
    expect(matchResults({ identifiers: domains, requestIds: null }, [result(null, 'beta.com')])).toEqual([1])
    const map = { 'acme.com': 'r1', 'beta.com': 'r2' }
    expect(matchResults({ identifiers: domains, requestIds: map }, [result('r2'), result('r1')])).toEqual([
      1, 0,
    ])
    const list = { identifiers: byName, requestIds: ['r1', 'r2', 'r3'], isOrdered: true }
    expect(matchResults(list, [result('r3'), result('r1')])).toEqual([2, 0])
    expect(matchResults({ ...list, isOrdered: false }, [result('r3'), result('r1')])).toEqual([null, null])
  })
  test('matches the place that a result gives, and no other one', () => {
    const at = (index: number, requestId: string | null = null, content: unknown = index) => ({
      ...result(requestId),
      index,
      content,
    })
    const job = { identifiers: byName, requestIds: null }
    expect(matchResults(job, [at(2), at(0)])).toEqual([2, 0])
    // The same identifier in all of them is that of the job.
    expect(matchResults(job, [at(1, 'job'), at(2, 'job')])).toEqual([1, 2])
    expect(matchResults(job, [at(1), at(1)])).toEqual([1, 1])
    expect(matchResults(job, [at(1, null, 'one'), at(1, null, 'other')])).toEqual([null, null])
    expect(matchResults(job, [at(0), at(1)], false)).toEqual([null, null])
    // Counted from 1, as the last one shows.
    expect(matchResults(job, [at(1), at(2), at(3)])).toEqual([null, null, null])
    expect(matchResults({ ...job, isOrdered: true }, [at(1), at(2), at(3)])).toEqual([null, null, null])
    // A place that this job does not have shows that the delivery is another job's, where that is not certain.
    const another = [{ ...at(0), names: [emails[0] ?? ''] }, at(3)]
    const ofEmails = { identifiers: emails.slice(0, 3), requestIds: null }
    expect(matchResults(ofEmails, another, false)).toEqual([null, null])
    expect(matchResults(ofEmails, another)).toEqual([0, null])
    const mixed = { identifiers: [emails[0] ?? '', '', ada], requestIds: null }
    expect(matchResults(mixed, [at(0, emails[0]), at(1, emails[0]), at(2, bob)])).toEqual([0, null, null])
  })
  test('is matched by its declared order, which nothing else can prove', () => {
    const results = [result(null), result(null, 'ada@x.example'), result(null)]
    const job = { identifiers: byName, requestIds: null, isOrdered: true }
    expect(matchResults(job, results)).toEqual([0, 1, 2])
    expect(matchResults({ ...job, isOrdered: false }, results)).toEqual([null, null, null])
    expect(matchResults(job, results.slice(1))).toEqual([null, null])
    expect(matchResults(job, [...results, result(null)])).toEqual([null, null, null, null])
  })
  test('is in no order where a result is named after what was not submitted, or after the input of another place', () => {
    const profiles = { identifiers: [ada, bob], requestIds: null, isOrdered: true }
    expect(matchResults(profiles, [result('https://www.linkedin.com/in/eve'), result(null)])).toEqual([
      null,
      null,
    ])
    // What is known under another address than it was requested by has to be named.
    const renamed = [result(null, 'linkedin.com/in/ada-2'), result(null)]
    expect(matchResults(profiles, renamed)).toEqual([null, null])
    expect(
      matchResults(
        profiles,
        renamed.map((one, index) => ({ ...one, index })),
      ),
    ).toEqual([0, 1])
    expect(matchResults(profiles, [result(null), result(null, 'linkedin.com/in/ada')])).toEqual([null, 0])
    const domains = { identifiers: ['acme.com', 'beta.com'], requestIds: null, isOrdered: true }
    expect(matchResults(domains, [result('gamma.com'), result(null)])).toEqual([null, null])
  })
  test('may ask for one person by two identifiers, which contradicts neither', () => {
    const [email = ''] = emails
    const job = { identifiers: [email, '', ada], requestIds: null, isOrdered: true }
    const isSame = [result(null, email), result(null, email), result(null, email, ada)]
    expect(matchResults(job, isSame)).toEqual([0, 1, 2])
    // Without a result of its own, it may be the one that is in another place.
    expect(matchResults(job, [result(null), result(null, email), result(null)])).toEqual([null, 0, null])
    const named = [
      { ...result(null, email), index: 0 },
      { ...result(null, email), index: 1 },
    ]
    expect(matchResults({ ...job, isOrdered: false }, named)).toEqual([0, 1])
    expect(matchResults({ ...job, isOrdered: false }, named.slice(1))).toEqual([null])
  })
})

test('no input gets two different results, whatever is delivered', () => {
  const identifier = fc.oneof(fc.constantFrom(...emails, '0', '1', '2', 'r1', 'r2'), fc.constant(null))
  fc.assert(
    fc.property(
      fc.array(
        fc.record({
          requestId: identifier,
          names: fc.subarray([...emails, 'z@z.example'], { maxLength: 1 }),
          content: fc.nat(1),
        }),
        { maxLength: 6 },
      ),
      fc.constantFrom(null, ['r1', 'r2', 'r3'], { 'a@x.example': 'r2' }),
      fc.boolean(),
      (results, requestIds, isCertain) => {
        const places = matchResults({ identifiers: emails, requestIds }, results, isCertain)
        const used = new Map<number, string>()
        places.forEach((place, at) => {
          if (place === null) return
          expect(place).toBeGreaterThanOrEqual(0)
          expect(place).toBeLessThan(emails.length)
          const text = JSON.stringify(results[at])
          expect(used.get(place) ?? text).toBe(text)
          used.set(place, text)
        })
      },
    ),
  )
})
