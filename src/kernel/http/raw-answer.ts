import { STATUS_CODES } from 'node:http';
import { JSON_TYPE } from './headers.ts';

/** A whole answer as text, for sockets that node:http has let go of. */
export function rawAnswer(status: number, body: string, headers: Readonly<Record<string, string>> = {}): string {
  const lines = Object.entries({
    'Content-Type': JSON_TYPE,
    'Content-Length': String(Buffer.byteLength(body)),
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
    'Access-Control-Allow-Origin': '*',
    ...headers,
    Connection: 'close',
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Error'}\r\n${lines.join('')}\r\n${body}`;
}
