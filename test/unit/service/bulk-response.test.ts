import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseBulkResponse } from '../../../src/service/bulk-response.ts'

describe('parseBulkResponse', () => {
  test.each([
    [{ job_id: 'j1' }, 'j1'],
    [{ jobId: 12 }, '12'],
    [{ id: 'j1' }, 'j1'],
    [{ data: { job_id: 'j1' } }, 'j1'],
    [{ job: { id: 'j1', status: 'queued' } }, 'j1'],
    [{ batch: { id: 7 } }, '7'],
    [{ job: 'j1' }, 'j1'],
    [{ id: 'of the request', data: { job_id: 'j1' } }, 'j1'],
    ['j1', 'j1'],
    [42, '42'],
    [{ job_id: '' }, null],
    [{ job_id: null, status: 'accepted' }, null],
    [{}, null],
    [[], null],
    [null, null],
    [true, null],
  ])('reads from %j the job %j', (body, jobId) => {
    expect(parseBulkResponse(body).jobId).toBe(jobId)
  })

  test.each([
    [{ request_ids: ['r1', 2] }, ['r1', '2']],
    [{ data: { request_ids: ['r1'] } }, ['r1']],
    [{ requests: [{ request_id: 'r1', email: 'a@x.example' }] }, { 'a@x.example': 'r1' }],
    [{ results: [{ id: 'r1' }, { id: 'r2' }] }, ['r1', 'r2']],
    [{ items: [{ request_id: 1, input: 'a@x.example' }] }, { 'a@x.example': '1' }],
    [{ request_ids: { 'a@x.example': 'r1' } }, { 'a@x.example': 'r1' }],
    [{ request_ids: { r1: 'a@x.example' } }, { 'a@x.example': 'r1' }],
    [{ requests: [{ request_id: 'r1', email: 'a@x.example' }, { request_id: 'r2' }] }, null],
    [{ requests: 3 }, null],
    [{ request_ids: [] }, null],
    [{ request_ids: [null] }, null],
    [{ request_ids: { a: 'b' } }, null],
    [{ results: [], request_ids: ['r1'] }, ['r1']],
  ])('reads from %j the request identifiers %j', (body, requestIds) => {
    expect(parseBulkResponse({ job_id: 'j', ...body }).requestIds).toEqual(requestIds)
  })

  test('fails for no JSON', () => {
    const ids = fc.constantFrom('job_id', 'id', 'data', 'request_ids', 'results', 'email', 'a@x.example')
    const bodies = fc.oneof(fc.jsonValue(), fc.dictionary(ids, fc.jsonValue()))
    fc.assert(
      fc.property(bodies, (body) => {
        const { jobId } = parseBulkResponse(body)
        expect(jobId === null || jobId !== '').toBe(true)
      }),
    )
  })
})
