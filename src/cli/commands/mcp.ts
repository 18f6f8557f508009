import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { CodedError, EXIT, messageOf } from '../../lib/coded-error.ts';
import { isPlainObject } from '../../lib/json.ts';
import { callPeer } from '../../runtime/call-peer.ts';
import type { RunCommand } from '../command.ts';
import { isSafeAddress } from '../safe-address.ts';

/**
 * The protocol over stdio, for clients that start their servers: each line is a message, sent to `/mcp` of a daemon, and each answer is a
 * line. Nothing else is written to standard output.
 */
export const run: RunCommand = async (values, io) => {
  const url = String(values['url']);
  if (!isSafeAddress(url)) throw usage('--url must begin with https://; http:// is for daemons on this machine only');
  const key = readKey(resolve(io.cwd, String(values['keyFile'])));
  const bridge = createBridge({ address: `${url.replace(/\/+$/, '')}/mcp`, key, write: io.out });
  for await (const line of createInterface({ input: process.stdin, crlfDelay: Number.POSITIVE_INFINITY }))
    if (line.trim() !== '') bridge.take(line);
  await bridge.idle();
  return EXIT.ok;
};

function readKey(file: string): string {
  let text: string;
  try {
    text = readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw usage(`cannot read the key: ${messageOf(error)}`);
  }
  const key = text.startsWith('{') ? keyOfSignup(text) : text;
  if (/^[\x21-\x7e]{1,256}$/.test(key)) return key;
  throw usage(`${file} has no key: it holds the key alone, or is the file of a sign-up`);
}

/** Empty if the file is another one. */
function keyOfSignup(text: string): string {
  try {
    const found: unknown = JSON.parse(text);
    return isPlainObject(found) && typeof found['key'] === 'string' ? found['key'] : '';
  } catch {
    return '';
  }
}

const usage = (text: string) => new CodedError('MCP_USAGE', text, { exitCode: EXIT.usage });

interface BridgeParts {
  readonly address: string;
  readonly key: string;
  write(line: string): void;
}

interface Bridge {
  take(line: string): void;
  /** Resolves when every request has its answer. */
  idle(): Promise<void>;
}

type Id = string | number;

const VERSION = 'io.modelcontextprotocol/protocolVersion';
const INTERNAL = -32603;
const PARSE = -32700;

/** Sends messages to a daemon. A request always gets one answer; when the daemon gives none, it is an error that says why. */
export function createBridge({ address, key, write }: BridgeParts): Bridge {
  const running = new Map<Id, AbortController>();
  const open = new Set<Promise<void>>();
  /** Version that client and daemon agreed on; before, none is named. */
  let version: string | null = null;

  async function pass(message: Record<string, unknown>): Promise<void> {
    const { id, method } = message;
    const request = isId(id) && typeof method === 'string' ? id : null;
    const controller = new AbortController();
    if (request !== null) running.set(request, controller);
    try {
      const response = await callPeer(address, {
        method: 'POST',
        headers: { 'X-Api-Key': key, ...headersOf(message, version) },
        body: JSON.stringify(message),
        signal: controller.signal,
      });
      const text = await response.text();
      if (request !== null) write(answerOf(request, response.status, text));
    } catch (error) {
      // The client has cancelled it, and waits for nothing.
      if (request !== null && !controller.signal.aborted)
        write(failure(request, `the daemon does not answer: ${causeOf(error)}`));
    } finally {
      if (request !== null) running.delete(request);
    }
  }

  /** One line with the id of the request, whatever the daemon sent. */
  function answerOf(id: Id, status: number, text: string): string {
    let answer: unknown = null;
    try {
      answer = JSON.parse(text);
    } catch {
      // Not JSON: the status is all there is.
    }
    if (!isPlainObject(answer)) return failure(id, `the daemon answered with HTTP ${status}`);
    const { result, error } = answer;
    if (isPlainObject(result) && typeof result['protocolVersion'] === 'string') version = result['protocolVersion'];
    if (isPlainObject(result) || isPlainObject(error)) return JSON.stringify({ ...answer, id });
    const reason = typeof error === 'string' ? `: ${error}` : '';
    return failure(id, `the daemon answered with HTTP ${status}${reason}`);
  }

  return {
    take(line) {
      let message: unknown;
      try {
        message = JSON.parse(line);
      } catch {
        write(JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: PARSE, message: 'Parse error' } }));
        return;
      }
      for (const one of Array.isArray(message) ? message : [message]) {
        if (!isPlainObject(one)) continue;
        const cancelled = one['method'] === 'notifications/cancelled' && isPlainObject(one['params']);
        if (cancelled) {
          // The daemon ends what it does for a request when its connection closes.
          running.get((one['params'] as { requestId?: Id }).requestId as Id)?.abort();
          continue;
        }
        const work = pass(one).finally(() => open.delete(work));
        open.add(work);
      }
    },
    async idle() {
      await Promise.all(open);
    },
  };
}

const isId = (id: unknown): id is Id => typeof id === 'string' || typeof id === 'number';

const failure = (id: Id, message: string) => JSON.stringify({ jsonrpc: '2.0', id, error: { code: INTERNAL, message } });

/** What HTTP demands of a message: a client of 2026 names its version in each message, one of 2025 once. */
function headersOf(message: Readonly<Record<string, unknown>>, agreed: string | null): Record<string, string> {
  const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' };
  const { method, params } = message;
  const { _meta: meta, name, uri } = isPlainObject(params) ? params : {};
  const own = isPlainObject(meta) ? meta[VERSION] : undefined;
  if (typeof own !== 'string') return agreed === null ? headers : { ...headers, 'MCP-Protocol-Version': agreed };
  const target = typeof name === 'string' ? name : uri;
  return {
    ...headers,
    'MCP-Protocol-Version': own,
    'Mcp-Method': String(method),
    ...(typeof target === 'string' ? { 'Mcp-Name': target } : {}),
  };
}

function causeOf(error: unknown): string {
  const { cause } = error as { cause?: unknown };
  return cause === undefined ? messageOf(error) : messageOf(cause);
}
