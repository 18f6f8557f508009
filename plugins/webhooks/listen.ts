import { timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { codeOf, EXIT, messageOf } from '../../src/lib/coded-error.ts';
import { CodedError } from '../../src/plugin/plugin.ts';
import { callPeer } from '../../src/runtime/call-peer.ts';
import { secretKey, signBody } from './delivery/send.ts';

/** A received request and the response to it. */
export interface Arrival {
  readonly id: string | null;
  readonly webhook: string | null;
  readonly attempt: string | null;
  readonly bytes: number;
  readonly verified: Verdict;
  readonly status: number;
  readonly body: string;
}

interface ListenerOptions {
  readonly host: string;
  readonly port: number;
  /** Address to which each request is forwarded. */
  readonly forward?: string;
  /** The secrets that may have signed for a webhook. */
  secretsOf(webhookId: string): Promise<readonly string[]>;
  nowMs(): number;
  arrived(arrival: Arrival): void;
}

interface Listener {
  readonly url: string;
  close(): Promise<void>;
}

const MAX_BYTES = 16 * 1024 * 1024;
const FORWARD_MS = 30_000;
const MAX_CONNECTIONS = 256;
const UNREACHED = 502;
const TOO_LARGE = 413;

/** Receives webhooks on a local address. Errors: WEBHOOKS_LISTEN. */
export async function startListener(options: ListenerOptions): Promise<Listener> {
  const server = createServer((request, response) => {
    take(options, request, response).catch(() => response.destroy());
  });
  server.maxConnections = MAX_CONNECTIONS;
  await new Promise<void>((resolve, reject) => {
    server.once('error', (cause) =>
      reject(
        new CodedError(
          'WEBHOOKS_LISTEN',
          `cannot listen on ${options.host}:${options.port}: ${codeOf(cause) === 'EADDRINUSE' ? 'another process has it; choose another --port' : messageOf(cause)}`,
          { cause, exitCode: EXIT.temporary },
        ),
      ),
    );
    server.listen(options.port, options.host, resolve);
  });
  const { port, family, address } = server.address() as AddressInfo;
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`,
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      // The last response may still be in flight.
      server.closeIdleConnections();
      setImmediate(() => server.closeAllConnections());
      await closed;
    },
  };
}

async function take(options: ListenerOptions, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const body = await readBody(request);
  if (body === null) {
    response.writeHead(TOO_LARGE, { connection: 'close' }).end();
    return;
  }
  const head = (name: string): string | undefined => {
    const value = request.headers[name];
    return Array.isArray(value) ? value.join(' ') : value;
  };
  const webhook = head('x-parhelion-webhook') ?? null;
  const signed = { id: head('webhook-id'), timestamp: head('webhook-timestamp'), signature: head('webhook-signature') };
  const secrets = await options.secretsOf(webhook ?? '');
  const verified = verifyDelivery(signed, body, secrets, options.nowMs());
  const reply = options.forward === undefined ? { status: 200, text: '' } : await pass(options.forward, request, body);
  response.writeHead(reply.status).end(reply.text, () =>
    options.arrived({
      id: signed.id ?? null,
      webhook,
      attempt: head('x-parhelion-attempt') ?? null,
      bytes: body.length,
      verified,
      status: reply.status,
      body: body.toString(),
    }),
  );
}

async function readBody(request: IncomingMessage): Promise<Buffer | null> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of request) {
    bytes += (part as Buffer).length;
    if (bytes > MAX_BYTES) return null;
    parts.push(part as Buffer);
  }
  return Buffer.concat(parts);
}

/** Forwards a request unchanged. The developer chose the address, so it is not guarded. */
async function pass(
  forward: string,
  request: IncomingMessage,
  body: Buffer,
): Promise<{ status: number; text: string }> {
  const headers = new Headers();
  for (const [name, value] of Object.entries(request.headers)) {
    const isKept = name === 'content-type' || name === 'authorization' || /^(webhook|x-parhelion)-/.test(name);
    if (isKept && typeof value === 'string') headers.set(name, value);
  }
  try {
    const signal = AbortSignal.timeout(FORWARD_MS);
    const answer = await callPeer(forward, { method: 'POST', headers, body, signal });
    return { status: answer.status, text: await answer.text() };
  } catch {
    return { status: UNREACHED, text: 'the forward address did not answer' };
  }
}

interface SignedHeaders {
  readonly id: string | undefined;
  /** Unix seconds, as text. */
  readonly timestamp: string | undefined;
  readonly signature: string | undefined;
}

/** `old`: more than five minutes from now, so possibly recorded and sent again. */
type Verdict = 'good' | 'bad' | 'old' | 'missing' | 'unknown secret';

const TOLERANCE_SECONDS = 300;

/** Checks the signature of a request as a receiver should: over the received bytes, in constant time, and within the time limit. */
function verifyDelivery(headers: SignedHeaders, body: Uint8Array, secrets: readonly string[], nowMs: number): Verdict {
  const { id, timestamp, signature } = headers;
  if (id === undefined || timestamp === undefined || signature === undefined) return 'missing';
  if (secrets.length === 0) return 'unknown secret';
  const seconds = Number(timestamp);
  const wanted = signBody(secrets.map(secretKey), id, seconds, body)
    .split(' ')
    .map((text) => Buffer.from(text));
  const isGood = signature.split(' ').some((text) => wanted.some((one) => isEqual(one, Buffer.from(text))));
  if (!isGood) return 'bad';
  return Math.abs(nowMs / 1_000 - seconds) > TOLERANCE_SECONDS ? 'old' : 'good';
}

const isEqual = (a: Buffer, b: Buffer): boolean => a.length === b.length && timingSafeEqual(a, b);
