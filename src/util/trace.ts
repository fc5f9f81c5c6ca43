import {
  type Attributes,
  INVALID_SPAN_CONTEXT,
  ProxyTracerProvider,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { readVersion } from './version.ts'

// The way of a row as OpenTelemetry spans, where the user registers an SDK: docs/operations.md#traces. Without one the API
// does nothing. Its version is held below 1.10: the API of an older SDK ignores the spans of a newer one.

const TRACER = ['fillrate', readVersion()] as const
const tracer = trace.getTracer(...TRACER)

/** Whether an SDK is registered now: the user may do so at any moment. */
function hasSdk(): boolean {
  const provider = trace.getTracerProvider()
  return !(provider instanceof ProxyTracerProvider) || provider.getDelegateTracer(...TRACER) !== undefined
}

/** What leads from one span to the next: a row's lookup, and its job. Identifiers only, never an address. */
export type SpanAttributes = Attributes

/** A call that is under way. */
export type CallSpan = Pick<Span, 'setAttributes' | 'isRecording'>

/** Records nothing. Without an SDK the API makes a span and a context for each call, and a promise more. */
const NO_SPAN: CallSpan = trace.wrapSpanContext(INVALID_SPAN_CONTEXT)

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
  if (!hasSdk()) return act(NO_SPAN)
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
