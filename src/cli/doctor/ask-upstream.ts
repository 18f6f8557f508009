import { createTransport } from '../../adapters/chain/rpc/transport.ts';
import { CodedError } from '../../lib/coded-error.ts';
import { gather } from '../../lib/gather.ts';
import { isPlainObject } from '../../lib/plain-object.ts';
import type { Clock } from '../../ports/clock.ts';
import type { UpstreamConfig } from '../../ports/upstream.ts';

/** Calls one upstream, without pool, retries and cache. */
export interface AskUpstream {
  /** Errors: those of the transport; CHAIN_RPC_ERROR; CHAIN_BAD_RESPONSE. None holds the address. */
  ask(method: string, params?: readonly unknown[]): Promise<unknown>;
  close(): Promise<void>;
}

const TIMEOUT_MS = 5_000;
const MAX_BYTES = 16_777_216;
const MAX_MESSAGE_CHARS = 120;

export function createAskUpstream(label: string, config: UpstreamConfig, clock: Clock): AskUpstream {
  const upstream = { label, url: config.url, headers: config.headers ?? {}, archive: false, maxConcurrent: 4 };
  const transport = createTransport(upstream, 'parhelion-doctor', clock);
  return {
    async ask(method, params = []) {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
      const reply = await transport.send({ body, timeoutMs: TIMEOUT_MS, maxBytes: MAX_BYTES });
      const { bytes } = await gather(reply.body, MAX_BYTES);
      return resultOf(bytes, method, reply.status);
    },
    close: () => transport.close(),
  };
}

function resultOf(bytes: Buffer, method: string, status: number): unknown {
  let answer: unknown;
  try {
    answer = JSON.parse(bytes.toString('utf8'));
  } catch {
    answer = null;
  }
  if (isPlainObject(answer) && isPlainObject(answer['error'])) {
    const { code, message } = answer['error'];
    const text = String(message).slice(0, MAX_MESSAGE_CHARS);
    throw new CodedError('CHAIN_RPC_ERROR', `${method}: ${text} (${String(code)})`, { facts: { status } });
  }
  if (isPlainObject(answer) && 'result' in answer && status < 300) return answer['result'];
  const refused = status === 401 || status === 403 ? ': the upstream refuses the key' : '';
  throw new CodedError('CHAIN_BAD_RESPONSE', `${method}: HTTP status ${status} without a JSON-RPC answer${refused}`);
}
