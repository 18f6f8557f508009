import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { end } from '../rpc/server.ts';
import type { FaultRule } from './rule.ts';

const JSON_TYPE = 'application/json';

/** Sends `text` the way a rule spoils it; without a rule, as it should be. */
export async function sendUnder(
  rule: FaultRule | null,
  response: ServerResponse,
  text: string,
  random: () => number,
): Promise<void> {
  switch (rule?.action) {
    case 'latency':
      if (rule.afterHeaders === true) {
        response.writeHead(200, { 'content-type': JSON_TYPE, 'content-length': Buffer.byteLength(text) });
        response.flushHeaders();
      }
      await sleep(rule.ms + random() * (rule.jitterMs ?? 0));
      if (rule.afterHeaders === true) response.end(text);
      else end(response, 200, text, JSON_TYPE);
      return;
    case 'status':
      return sendStatus(rule, response);
    case 'truncate':
      return sendPart(
        response,
        Buffer.from(text).subarray(0, rule.bytes),
        rule.mode ?? 'close',
        Buffer.byteLength(text),
      );
    case 'garbage':
      return sendGarbage(response, text, rule.form ?? 'text');
    case 'oversize':
      return end(response, 200, text.padEnd(rule.bytes, ' '), JSON_TYPE);
    case 'reset':
      if (rule.during === true) return sendPart(response, Buffer.from(text).subarray(0, 1), 'close', text.length);
      response.destroy();
      return;
    case 'hang':
      return;
    case 'noBatch': {
      const error = { code: -32600, message: 'Only method calls are supported' };
      return end(response, 200, JSON.stringify({ error, id: null }), JSON_TYPE);
    }
    default:
      return end(response, 200, text, JSON_TYPE);
  }
}

function sendStatus(rule: Extract<FaultRule, { action: 'status' }>, response: ServerResponse): void {
  const bodies = {
    json: [JSON.stringify({ jsonrpc: '2.0', error: { code: rule.status, message: 'fault' }, id: null }), JSON_TYPE],
    html: ['<html><body><h1>fault</h1></body></html>', 'text/html'],
    text: ['fault', 'text/plain'],
    empty: ['', 'text/plain'],
  } as const;
  const [text, type] = bodies[rule.body ?? 'json'];
  if (rule.retryAfter !== undefined) response.setHeader('retry-after', String(rule.retryAfter));
  end(response, rule.status, text, type);
}

function sendPart(
  response: ServerResponse,
  part: Buffer,
  mode: 'close' | 'clean' | 'chunked',
  fullBytes: number,
): void {
  if (mode === 'clean') {
    response.writeHead(200, { 'content-type': JSON_TYPE, 'content-length': part.length });
    response.end(part);
    return;
  }
  const length = mode === 'close' ? { 'content-length': fullBytes } : {};
  response.writeHead(200, { 'content-type': JSON_TYPE, ...length });
  response.write(part, () => response.destroy());
}

function sendGarbage(response: ServerResponse, text: string, form: 'contentType' | 'text' | 'bom' | 'trailing'): void {
  if (form === 'contentType') end(response, 200, text, 'text/html');
  else if (form === 'bom') end(response, 200, `\uFEFF${text}`, JSON_TYPE);
  else if (form === 'trailing') end(response, 200, `${text}trailing`, JSON_TYPE);
  else end(response, 200, 'this is no JSON', JSON_TYPE);
}
