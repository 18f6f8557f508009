import { type Receiver, startReceiver } from '../../helpers/receiver.ts';

/** A span as it came over the wire. */
export interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[];
  readonly status: { readonly code: number };
}

interface OtlpRequest {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: OtlpSpan['attributes'] };
    readonly scopeSpans: readonly { readonly scope: { readonly name: string }; readonly spans: readonly OtlpSpan[] }[];
  }[];
}

export interface Collector {
  readonly receiver: Receiver;
  readonly endpoint: string;
  requests(): readonly OtlpRequest[];
  spans(): readonly OtlpSpan[];
  /** The first span that fits; waits until it has come. */
  span(fits: (span: OtlpSpan) => boolean): Promise<OtlpSpan>;
}

export async function startCollector(): Promise<Collector> {
  const receiver = await startReceiver();
  const requests = () => receiver.received.map(({ body }) => JSON.parse(body.toString()) as OtlpRequest);
  const spans = () =>
    requests().flatMap(({ resourceSpans }) =>
      resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap((scope) => scope.spans)),
    );
  return {
    receiver,
    endpoint: `${receiver.url}/v1/traces`,
    requests,
    spans,
    async span(fits) {
      for (let round = 0; round < 1_200; round += 1) {
        const found = spans().find(fits);
        if (found !== undefined) return found;
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
      throw new Error(`no such span among ${JSON.stringify(spans().map(({ name }) => name))}`);
    },
  };
}

/** The value of an attribute, whatever its type. */
export const attribute = ({ attributes }: Pick<OtlpSpan, 'attributes'>, key: string): unknown =>
  Object.values(attributes.find((one) => one.key === key)?.value ?? {})[0];
