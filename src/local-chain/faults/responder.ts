import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { answer, failure, idOf, type RpcResponse, readRequest } from '../rpc/dispatch.ts';
import type { LocalNode, Methods } from '../rpc/node.ts';
import { answerBody, answerItem, answerText, end, endJson, type Responder, type ServedCall } from '../rpc/server.ts';
import { answerUnder } from './answers.ts';
import type { FaultEngine, FaultRule } from './engine.ts';

const TRANSPORT = new Set(['latency', 'status', 'truncate', 'garbage', 'oversize', 'reset', 'hang']);

interface Item {
  readonly value: unknown;
  readonly rule: FaultRule | null;
}

/** Answers calls under the rules; without rules it costs one look. */
export function createResponder(node: LocalNode, methods: Methods, engine: FaultEngine): Responder {
  const gate = createReverseGate();
  return async ({ request, response, body }: ServedCall) => {
    if (engine.isIdle()) return endJson(response, answerBody(node, methods, body));
    const client = request.headers['user-agent'] ?? '';
    const isBatch = Array.isArray(body) && body.length > 0;
    const items = (isBatch ? (body as unknown[]) : [body]).map((value, item) => ({
      value,
      rule: ruleFor(engine, value, item, client),
    }));
    const answers = items.flatMap((item) => answerOne(node, methods, item) ?? []);
    const order = items.find(({ rule }) => rule?.action === 'duplicate' || rule?.action === 'outOfOrder')?.rule;
    if (!isBatch && order?.action === 'outOfOrder') await gate(order.window ?? 2);
    const sent = isBatch ? arranged(answers, order) : (answers[0] ?? null);
    const transport = items.find(({ rule }) => rule !== null && TRANSPORT.has(rule.action))?.rule;
    const refused = isBatch ? items.find(({ rule }) => rule?.action === 'noBatch')?.rule : undefined;
    await sendUnder(refused ?? transport ?? null, response, answerText(sent), engine.random);
  };
}

/** Control calls are never subject to rules. */
function ruleFor(engine: FaultEngine, value: unknown, item: number, client: string): FaultRule | null {
  const { method, params } = (value ?? {}) as { method?: unknown; params?: unknown };
  if (typeof method !== 'string' || method.startsWith('local_')) return null;
  const first: unknown = Array.isArray(params) ? params[0] : undefined;
  const slot = typeof first === 'number' ? first : null;
  return engine.pick({ method, slot, subscription: null, item, client });
}

function answerOne(node: LocalNode, methods: Methods, { value, rule }: Item): RpcResponse | null {
  if (rule === null) return answerItem(node, methods, value);
  try {
    const request = readRequest(value);
    const response = answerUnder(rule, node, request, () => answer(node, methods, request));
    return request.isNotification ? null : response;
  } catch (error) {
    return failure(idOf(value), error);
  }
}

function arranged(answers: readonly RpcResponse[], order: FaultRule | null | undefined): readonly RpcResponse[] {
  if (order?.action === 'duplicate') return answers.flatMap((answer) => [answer, answer]);
  return order?.action === 'outOfOrder' ? answers.toReversed() : answers;
}

const GIVE_UP_MS = 200;
/** Enough for answers on different sockets to arrive in this order. */
const APART_MS = 10;

/** Holds callers until `window` of them wait, then lets them go one after the other, the last one first. */
function createReverseGate() {
  let waiting: (() => void)[] = [];
  let timer: NodeJS.Timeout | null = null;
  function open(): void {
    if (timer !== null) clearTimeout(timer);
    timer = null;
    const released = waiting.toReversed();
    waiting = [];
    released.forEach((release, index) => {
      setTimeout(release, index * APART_MS);
    });
  }
  return (window: number): Promise<void> =>
    new Promise((resolve) => {
      waiting.push(resolve);
      // A client that sends fewer calls at once than the window must not wait for ever.
      if (waiting.length >= window) open();
      else timer ??= setTimeout(open, GIVE_UP_MS);
    });
}

const JSON_TYPE = 'application/json';

/** Sends `text` the way a rule spoils it; without a rule, as it should be. */
async function sendUnder(
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
