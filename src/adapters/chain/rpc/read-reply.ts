import { codeOf, messageOf } from '../../../lib/coded-error.ts';
import type { UpstreamOutcome, UpstreamReply, UpstreamRequest } from '../../../ports/upstream.ts';
import { decodeResponse } from '../../../solana/decode/decode-response.ts';

export interface NodeError {
  readonly code: number;
  readonly message: string;
  readonly data?: unknown;
}

/** A whole answer and what it says about the upstream. */
export interface ReadAnswer {
  readonly outcome: UpstreamOutcome;
  /** Set when the upstream answered with a result (which may be null). */
  readonly result?: unknown;
  /** Set when the upstream answered with an error object. */
  readonly error?: NodeError;
  /** Set when the request failed before an answer came. */
  readonly failure?: unknown;
}

interface Sender {
  send(request: UpstreamRequest): Promise<UpstreamReply>;
}

/** Finds the result in the bytes of an answer that has one, without parsing it; null when the answer has to be parsed. */
export type ScanResult = (body: Buffer) => unknown;

/** Sends one JSON-RPC request and reads its answer whole. Never throws; the caller decides what a failure means. */
export async function readReply(sender: Sender, request: UpstreamRequest, scan?: ScanResult): Promise<ReadAnswer> {
  try {
    const reply = await sender.send(request);
    const chunks: Buffer[] = [];
    for await (const chunk of reply.body) chunks.push(chunk as Buffer);
    return classify(reply, Buffer.concat(chunks), scan);
  } catch (error) {
    return { outcome: { kind: 'failed', reason: codeOf(error) ?? messageOf(error) }, failure: error };
  }
}

function classify(reply: UpstreamReply, body: Buffer, scan: ScanResult | undefined): ReadAnswer {
  const { status } = reply;
  if (status === 429) return { outcome: { kind: 'limited', retryAfterMs: retryAfterMs(reply.headers['retry-after']) } };
  if (status === 401 || status === 403) return { outcome: { kind: 'denied', status } };
  const scanned = status < 400 ? (scan?.(body) ?? null) : null;
  if (scanned !== null) return { outcome: { kind: 'ok' }, result: scanned };
  const parsed = parse(body);
  if (parsed === null) return failed(status >= 400 ? `status ${status}` : 'the answer is no JSON-RPC');
  if (isNodeError(parsed['error'])) return { outcome: { kind: 'ok' }, error: parsed['error'] };
  if (status >= 400) return failed(`status ${status}`);
  if (!('result' in parsed)) return failed('neither result nor error');
  return { outcome: { kind: 'ok' }, result: parsed['result'] };
}

const failed = (reason: string): ReadAnswer => ({ outcome: { kind: 'failed', reason } });

function parse(body: Buffer): Record<string, unknown> | null {
  try {
    const value = decodeResponse(body);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

function isNodeError(value: unknown): value is NodeError {
  return typeof value === 'object' && value !== null && Number.isInteger((value as { code?: unknown }).code);
}

/** Whole seconds only; a date or nonsense counts as not given. */
function retryAfterMs(header: string | undefined): number | null {
  if (header === undefined || !/^\d{1,6}$/.test(header)) return null;
  return Math.min(Number(header) * 1_000, 300_000);
}
