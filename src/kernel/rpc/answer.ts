import type { Readable } from 'node:stream';
import type { Fault } from '../calls/fault.ts';
import { failed } from './execute.ts';

/** A JSON-RPC answer, ready to be written. */
export interface RpcAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Null: no body (204). */
  readonly body: string | Buffer | Readable | null;
  /** Method name or `batch(n)`; for log lines. */
  readonly label: string;
  /** To be called once, when the bytes are known. */
  settle(bytesOut: number): void;
}

/** The answer to a request, or to a call, that was not run. `id` is raw JSON. */
export function refusal(fault: Fault, id: string, label: string): RpcAnswer {
  const { status, headers, body } = failed(fault, id);
  return { status, headers, body, label, settle: () => {} };
}
