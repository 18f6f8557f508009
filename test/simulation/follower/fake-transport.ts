import { Readable } from 'node:stream';
import type { Transport } from '../../../src/adapters/chain/rpc/transport.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { UpstreamReply, UpstreamRequest } from '../../../src/ports/upstream.ts';
import type { Sfc32 } from '../../helpers/sfc32.ts';
import { createFakeNode, type FakeUpstream } from './fake-node.ts';
import type { World } from './world.ts';

const FAULTS = [
  'limited',
  'limited-for',
  'status',
  'html',
  'reset',
  'timeout',
  'cut',
  'half',
  'neither',
  'trailing',
] as const;

/** The way to a fake node: latency, and everything that can go wrong between the bytes of a request and those of its answer. */
export function createFakeTransport(world: World, upstream: FakeUpstream, random: Sfc32, clock: Clock): Transport {
  const node = createFakeNode(world, upstream, random);

  return {
    async send(request) {
      await clock.sleep(upstream.slowMs + 1 + random.below(60), request.signal as AbortSignal | undefined);
      if (upstream.isDown) throw new CodedError('UPSTREAM_CONNECT', 'refused', { retryable: true });
      const { method, params } = JSON.parse(String(request.body)) as { method: string; params: unknown[] };
      const answer = JSON.stringify({ jsonrpc: '2.0', id: 1 }).replace(/}$/, `,${memberOf(node(method, params))}}`);
      if (random.float() >= upstream.failRate) return reply(200, answer);
      return await fault(FAULTS[random.below(FAULTS.length)]!, answer, request);
    },
    retire: async () => {},
    close: async () => {},
  };

  async function fault(
    kind: (typeof FAULTS)[number],
    answer: string,
    request: UpstreamRequest,
  ): Promise<UpstreamReply> {
    switch (kind) {
      case 'limited':
        return reply(429, 'slow down');
      case 'limited-for':
        return reply(429, 'slow down', { 'retry-after': String(1 + random.below(3)) });
      case 'status':
        return reply([500, 502, 503, 504][random.below(4)]!, '<html>broken</html>');
      case 'html':
        return reply(200, '<html>welcome</html>');
      case 'reset':
        throw new CodedError('UPSTREAM_FAILED', 'the connection broke', { retryable: true });
      case 'timeout':
        await clock.sleep(request.timeoutMs, request.signal as AbortSignal | undefined);
        throw new CodedError('UPSTREAM_TIMEOUT', 'no answer in time', { retryable: true });
      case 'cut':
        return { ...reply(200, ''), body: Readable.from(cut(answer.slice(0, random.below(answer.length)))) };
      case 'half':
        return reply(200, answer.slice(0, random.below(answer.length)));
      case 'neither':
        return reply(200, '{"jsonrpc":"2.0","id":1}');
      case 'trailing':
        return reply(200, `${answer}{`);
    }
  }
}

function memberOf(answer: ReturnType<ReturnType<typeof createFakeNode>>): string {
  return 'result' in answer ? `"result":${answer.result}` : `"error":${JSON.stringify(answer.error)}`;
}

const reply = (status: number, text: string, headers: Record<string, string> = {}): UpstreamReply => ({
  status,
  headers,
  whole: null,
  body: Readable.from([Buffer.from(text)]),
});

async function* cut(text: string): AsyncGenerator<Buffer> {
  yield Buffer.from(text);
  throw new CodedError('UPSTREAM_FAILED', 'the connection broke', { retryable: true });
}
