import { type Attributes, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { readVersion } from './version.ts'

// The way of a row as OpenTelemetry spans, where the user registers an SDK: docs/operations.md#traces. Without one the API
// does nothing. Its version is held below 1.10: the API of an older SDK ignores the spans of a newer one.

const tracer = trace.getTracer('fillrate', readVersion())

/** What leads from one span to the next: a row's lookup, and its job. Identifiers only, never an address. */
export type SpanAttributes = Attributes

/** A call that is under way. */
export type CallSpan = Pick<Span, 'setAttributes'>

/** A page or a batch may hold thousands. */
const MAX_IDS = 200

/** Identifiers as an attribute. */
export const toIdList = (ids: readonly number[]): number[] => ids.slice(0, MAX_IDS)

/** A call to the service, as a span that is active during the call, so that spans of the HTTP client are inside it. */
export function traceCall<T>(
  name: string,
  attributes: SpanAttributes,
  act: (span: CallSpan) => Promise<T>,
): Promise<T> {
  return tracer.startActiveSpan(name, { kind: SpanKind.CLIENT, attributes }, async (span) => {
    try {
      return await act(span)
    } catch (error) {
      // Not the message: it may quote an input.
      span.setStatus({ code: SpanStatusCode.ERROR, message: (error as Error).name })
      throw error
    } finally {
      span.end()
    }
  })
}

/**
 * A batch that is done, as a span: most ticks find nothing to do, and only afterwards is it known which.
 * @param startedAt milliseconds since the epoch
 * @param describe called only where spans are recorded
 */
export function traceBatch(name: string, startedAt: number, describe: () => SpanAttributes): void {
  const span = tracer.startSpan(name, { startTime: startedAt })
  if (span.isRecording()) span.setAttributes(describe())
  span.end()
}
