import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Keypair } from '@solana/web3.js';
import { type Api, apiOf } from '../../conformance/webhooks/daemon.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonProcess, startDaemonProcess } from '../../helpers/daemon.ts';
import { type Receiver, startReceiver } from '../../helpers/receiver.ts';
import { logLines } from '../roles/harness.ts';
import { attribute, type Collector, type OtlpSpan, startCollector } from './collector.ts';
import { writeNotesPlugin } from './notes-plugin.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';
const address = () => Keypair.generate().publicKey.toBase58();
const named = (name: string) => (span: OtlpSpan) => span.name === name;
const below = (parent: OtlpSpan) => (span: OtlpSpan) =>
  span.traceId === parent.traceId && span.parentSpanId === parent.spanId;

describe('traces of a daemon with roles in threads', { skip: (await chainMissing()) ?? false }, () => {
  let chain: TestChain;
  let collector: Collector;
  let receiver: Receiver;
  let daemon: DaemonProcess;
  let api: Api;

  const folder = mkdtempSync(join(tmpdir(), 'parhelion-notes-'));

  /** The first line of the log that fits; waits until it is written. */
  async function logLine(fits: (line: Record<string, unknown>) => boolean): Promise<Record<string, unknown>> {
    for (let round = 0; round < 1_200; round += 1) {
      const found = logLines(daemon).find(fits);
      if (found !== undefined) return found;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`no such line in ${daemon.output()}`);
  }

  before(async () => {
    const plugin = writeNotesPlugin(folder);
    [chain, collector, receiver] = await Promise.all([startChain(), startCollector(), startReceiver()]);
    daemon = await startDaemonProcess({
      chain,
      config: {
        plugins: ['access', 'proxy', 'wallet', 'webhooks', 'traces', plugin],
        log: { level: 'info', format: 'json' },
        traces: {
          headers: { authorization: 'Bearer of the collector' },
          serviceName: 'of-the-file',
          intervalMs: 50,
          passToReceivers: true,
        },
        webhooks: { allowCidrs: ['127.0.0.0/8'], allowHttp: true },
      },
      env: {
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.receiver.url,
        OTEL_SERVICE_NAME: 'of-the-environment',
        OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment=test,service.name=lost',
        PARHELION_TRACES__PASS_TO_RECEIVERS: 'true',
      },
    });
    api = apiOf(daemon.apiUrl, daemon.key);
  });
  after(async () => {
    await daemon?.stop();
    await Promise.all([collector?.receiver.close(), receiver?.close(), chain?.stop()]);
    rmSync(folder, { recursive: true, force: true });
  });

  const rpc = async (method: string, params: unknown[], traceparent?: string) => {
    const response = await fetch(daemon.apiUrl, {
      method: 'POST',
      headers: { 'x-api-key': daemon.key, ...(traceparent === undefined ? {} : { traceparent }) },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    });
    assert.equal(response.status, 200);
    await response.text();
  };

  test('a call continues the trace of its client: request, method, upstream', async () => {
    await rpc('getBalance', [address()], `00-${TRACE}-${PARENT}-01`);
    const request = await collector.span((span) => span.parentSpanId === PARENT);
    assert.deepEqual([request.traceId, request.name, request.kind, request.status.code], [TRACE, 'POST /', 2, 0]);
    assert.equal(attribute(request, 'http.response.status_code'), '200');
    assert.equal(attribute(request, 'rpc.method'), 'getBalance');
    const call = await collector.span(below(request));
    assert.deepEqual([call.name, call.kind], ['getBalance', 1]);
    const upstream = await collector.span(below(call));
    assert.deepEqual([upstream.name, upstream.kind], ['POST', 3]);
    assert.equal(attribute(upstream, 'parhelion.upstream'), 'main-0');
    for (const span of [request, call, upstream]) {
      assert.match(`${span.traceId} ${span.spanId}`, /^[0-9a-f]{32} [0-9a-f]{16}$/);
      assert.match(span.startTimeUnixNano, /^\d{19}$/);
      assert.ok(BigInt(span.endTimeUnixNano) >= BigInt(span.startTimeUnixNano));
    }
    assert.ok(BigInt(call.startTimeUnixNano) >= BigInt(request.startTimeUnixNano));
  });

  test('exports are OTLP JSON with the configured headers and contain no secret', async () => {
    await rpc('getBalance', [address()]);
    await collector.span(named('POST /'));
    const [first] = collector.receiver.received;
    assert.deepEqual([first?.method, first?.url], ['POST', '/v1/traces']);
    assert.equal(first?.headers['content-type'], 'application/json');
    assert.equal(first?.headers.authorization, 'Bearer of the collector');
    const [{ resourceSpans } = { resourceSpans: [] }] = collector.requests();
    assert.equal(attribute(resourceSpans[0]!.resource, 'service.name'), 'of-the-environment');
    assert.equal(attribute(resourceSpans[0]!.resource, 'deployment.environment'), 'test');
    assert.equal(resourceSpans[0]?.scopeSpans[0]?.scope.name, 'parhelion');
    const all = collector.receiver.received.map(({ body }) => body.toString()).join();
    for (const word of [daemon.key, chain.rpcUrl, receiver.url]) assert.ok(!all.includes(word), word);
  });

  test('each attempt at a delivery is a trace of the deliverer, and its receiver gets the header', async () => {
    const wallet = address();
    const { status, body } = await api('POST', '/v0/webhooks', {
      webhookURL: `${receiver.url}/hook`,
      webhookType: 'raw',
      accountAddresses: [wallet],
    });
    assert.equal(status, 200, JSON.stringify(body));
    await chain.fund(wallet, 1_000_000);
    const [request] = await receiver.waitFor(1);
    const attempt = await collector.span(named('webhooks.deliver'));
    assert.equal(attempt.kind, 5);
    assert.equal(attribute(attempt, 'parhelion.job.outcome'), 'done');
    assert.equal(attribute(attempt, 'parhelion.job.attempt'), '1');
    const sent = await collector.span(below(attempt));
    assert.equal(attribute(sent, 'http.response.status_code'), '200');
    assert.equal(request?.headers['traceparent'], `00-${sent.traceId}-${sent.spanId}-01`);
  });

  test('each log line of a request, a delivery and a block names its trace and span', async () => {
    const traceId = '9'.repeat(32);
    await rpc('getBalance', [address()], `00-${traceId}-${PARENT}-01`);
    const request = await collector.span((span) => span.traceId === traceId && span.kind === 2);
    const line = await logLine(({ msg, traceId: id }) => msg === 'request' && id === traceId);
    assert.equal(line['spanId'], request.spanId);

    const ran = await logLine(({ msg }) => msg === 'a job ran');
    const job = await collector.span(({ spanId }) => spanId === ran['spanId']);
    assert.deepEqual([job.name, job.traceId], ['notes.run', ran['traceId']]);
    const block = await logLine(({ msg }) => msg === 'a block was seen');
    assert.match(`${block['traceId']} ${block['spanId']}`, /^[0-9a-f]{32} [0-9a-f]{16}$/);
  });

  test('a client that opts out is not traced; an invalid header is ignored', async () => {
    const traces = ['1'.repeat(32), '2'.repeat(32)] as const;
    await rpc('getEpochInfo', [], `00-${traces[0]}-${PARENT}-00`);
    await rpc('getEpochInfo', [], `00-${'0'.repeat(32)}-${PARENT}-01`);
    await rpc('getEpochInfo', [], `00-${traces[1]}-${PARENT}-01`);
    await collector.span(({ traceId }) => traceId === traces[1]);
    const roots = collector
      .spans()
      .filter((span) => attribute(span, 'rpc.method') === 'getEpochInfo' && span.kind === 2);
    assert.deepEqual(
      roots.map(({ parentSpanId }) => parentSpanId),
      [undefined, PARENT],
    );
    assert.ok(!collector.spans().some(({ traceId }) => traceId === traces[0]));
  });

  test('failed requests are marked, by the route and never by the path', async () => {
    assert.equal((await api('GET', '/v1/wallet/not-a-wallet/history')).status, 400);
    const span = await collector.span(named('GET /v1/wallet/:wallet/history'));
    assert.equal(attribute(span, 'http.response.status_code'), '400');
    assert.equal(span.status.code, 0, 'it is the fault of the client');
  });

  test('requests to nodes that belong to nothing else are no traces', () => {
    const parents = new Set(collector.spans().map(({ spanId }) => spanId));
    const upstream = collector.spans().filter((span) => attribute(span, 'parhelion.upstream') !== undefined);
    assert.ok(upstream.length > 0);
    // Of the last trace the parent may still be on its way.
    const orphans = upstream.filter(({ parentSpanId }) => parentSpanId === undefined);
    assert.deepEqual(orphans, []);
    assert.ok(upstream.some(({ parentSpanId }) => parents.has(parentSpanId!)));
  });
});
