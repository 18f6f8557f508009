import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { WebSocket } from 'ws';
import { invalidParams, RPC } from '../../packages/local-chain/encode/params.ts';
import type { ChainHooks } from '../../packages/local-chain/index.ts';
import { fork } from '../../packages/local-chain/ledger/forks.ts';
import type { NotificationFilter } from '../../packages/local-chain/pubsub.ts';
import type { LocalNode, Methods } from '../../packages/local-chain/rpc/method.ts';
import {
  answer,
  answerBody,
  answerItem,
  answerText,
  type CallResponder,
  end,
  endJson,
  failure,
  type RpcRequest,
  type RpcResponse,
  readRpcRequest,
  requestIdOf,
  type ServedCall,
} from '../../packages/local-chain/rpc/server.ts';
import { decode32, encode32 } from '../../src/lib/base58.ts';

import {
  createFaultEngine,
  type FaultEngine,
  type FaultRule,
  type FaultScript,
  type Faults,
} from './chain-fault-rules.ts';

const TRANSPORT = new Set(['latency', 'status', 'truncate', 'garbage', 'oversize', 'reset', 'hang']);

interface Item {
  readonly value: unknown;
  readonly rule: FaultRule | null;
}

/** Puts fault rules in front of a local chain, and lets clients set them with `local_faults`. */
export function faultHooks(): { readonly hooks: ChainHooks; readonly faults: Faults } {
  const engine = createFaultEngine(Date.now);
  const { faults } = engine;
  const hooks: ChainHooks = {
    respond: (node, methods) => createResponder(node, methods, engine),
    filter: createNotificationFilter(engine),
    answersPing: () => answersPing(engine),
    methods: {
      local_faults(_node, params) {
        faults.set(scriptOf(Array.isArray(params) ? params[0] : undefined));
        return true;
      },
      local_clearFaults() {
        faults.clear();
        return true;
      },
      local_faultLog: () => faults.log(),
    },
  };
  return { hooks, faults };
}

function scriptOf(value: unknown): FaultScript {
  const script = (Array.isArray(value) ? { rules: value } : value) as Partial<FaultScript> | null | undefined;
  const isRule = (rule: unknown) => typeof (rule as { action?: unknown } | null)?.action === 'string';
  if (!Array.isArray(script?.rules) || !script.rules.every(isRule))
    throw invalidParams('Invalid params: rules need an action each');
  return script as FaultScript;
}

/** Answers calls under the rules; without rules it costs one look. */
function createResponder(node: LocalNode, methods: Methods, engine: FaultEngine): CallResponder {
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
    const request = readRpcRequest(value);
    const response = answerUnder(rule, node, request, () => answer(node, methods, request));
    return request.isNotification ? null : response;
  } catch (error) {
    return failure(requestIdOf(value), error);
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

type Json = Record<string, unknown>;
interface Steps {
  readonly by?: number;
}

interface Place {
  readonly index?: number;
}

type Change = (result: unknown, request: RpcRequest, rule: never) => unknown;

/** Runs a call under a rule: some rules act before it, some instead of it, the others change its result. */
function answerUnder(rule: FaultRule, node: LocalNode, request: RpcRequest, run: () => RpcResponse): RpcResponse {
  const fail = (code: number, message: string): RpcResponse => ({
    jsonrpc: '2.0',
    id: request.id,
    error: { code, message },
  });
  const slot: unknown = Array.isArray(request.params) ? request.params[0] : undefined;
  switch (rule.action) {
    case 'rpcError':
      return fail(rule.code, rule.message ?? 'Internal error');
    case 'wrongSkip':
      return fail(RPC.slotSkipped, `Slot ${slot} was skipped, or missing due to ledger jump to recent snapshot`);
    case 'notYet':
      return fail(RPC.blockNotAvailable, `Block not available for slot ${slot}`);
    case 'nullBlock':
      return { jsonrpc: '2.0', id: request.id, result: null };
    case 'rollback':
      fork(node.bank, rule.fork);
      return run();
    case 'lag':
      return lagging(node, rule.slots, run);
    case 'pruned':
      if (request.method === 'getBlock' && Number(slot) < rule.first) {
        return fail(
          RPC.blockCleanedUp,
          `Block ${slot} cleaned up, does not exist on node. First available block: ${rule.first}`,
        );
      }
  }
  const answer = run();
  const change = Object.hasOwn(CHANGES, rule.action) ? CHANGES[rule.action] : undefined;
  if (change === undefined || !('result' in answer)) return answer;
  return { ...answer, result: change(answer.result, request, rule as never) };
}

/** The call is synchronous: nobody else sees the shift. */
function lagging(node: LocalNode, slots: number, run: () => RpcResponse): RpcResponse {
  node.bank.lagSlots = slots;
  try {
    return run();
  } finally {
    node.bank.lagSlots = 0;
  }
}

const CHANGES: Readonly<Record<string, Change>> = {
  hideSlots: (result, _request, { hidden }: { readonly hidden: readonly number[] }) =>
    (result as number[]).filter((slot) => !hidden.includes(slot)),
  wrongParent: (result, _request, { by = 1 }: Steps) => ({
    ...(result as Json),
    parentSlot: ((result as Json)['parentSlot'] as number) - by,
  }),
  wrongHash: (result) => ({
    ...(result as Json),
    previousBlockhash: otherHash(String((result as Json)['previousBlockhash'])),
  }),
  tipBack: (result, _request, { by = 1 }: Steps) => tipBack(result, by),
  dropTx: (result, _request, { index = 0 }: Place) => mapLists(result, (list) => without(list, index)),
  nullBlockTime: (result) => ({ ...(result as Json), blockTime: null }),
  nullMeta: (result) => {
    const block = result as Json;
    if (!('transactions' in block)) return { ...block, meta: null };
    return { ...block, transactions: (block['transactions'] as Json[]).map((item) => ({ ...item, meta: null })) };
  },
  missingSignature: (result, _request, { index = 0 }: Place) => without(result as unknown[], index),
  shuffleSlot: (result) => reverseInSlots(result as { slot: number }[]),
  pruned: (result, { method }, { first }: { readonly first: number }) => {
    if (method === 'getFirstAvailableBlock' || method === 'minimumLedgerSlot') return first;
    if (method === 'getBlocks' || method === 'getBlocksWithLimit')
      return (result as number[]).filter((slot) => slot >= first);
    if (method === 'getSignaturesForAddress')
      return (result as { slot: number }[]).filter((item) => item.slot >= first);
    return method === 'getTransaction' && ((result as Json | null)?.['slot'] as number) < first ? null : result;
  },
};

function tipBack(result: unknown, by: number): unknown {
  if (typeof result === 'number') return result - by;
  const info = result as Json;
  return {
    ...info,
    absoluteSlot: (info['absoluteSlot'] as number) - by,
    blockHeight: (info['blockHeight'] as number) - by,
  };
}

function otherHash(hash: string): string {
  return encode32(createHash('sha256').update(decode32(hash)!).digest());
}

function mapLists(block: unknown, change: (list: unknown[]) => unknown[]): unknown {
  const copy: Json = { ...(block as Json) };
  for (const name of ['transactions', 'signatures']) {
    if (Array.isArray(copy[name])) copy[name] = change(copy[name]);
  }
  return copy;
}

function without(list: readonly unknown[], index: number): unknown[] {
  return list.filter((_, at) => at !== index);
}

/** Keeps the order of slots, and reverses the entries within each slot. */
function reverseInSlots<T extends { slot: number }>(list: readonly T[]): T[] {
  const groups: T[][] = [];
  for (const item of list) {
    if (groups.at(-1)?.[0]?.slot === item.slot) groups.at(-1)!.unshift(item);
    else groups.push([item]);
  }
  return groups.flat();
}

const ABNORMAL = 1006;
/** First byte of a text frame, and a length of 1000 bytes in the two that follow; the bytes themselves never come. */
const HALF_FRAME = Buffer.from([0x81, 126, 0x03, 0xe8, 0x7b]);

/** Applies the rules to notifications. */
function createNotificationFilter(engine: FaultEngine): NotificationFilter {
  const held = new WeakMap<WebSocket, string[]>();
  return (kind, text, socket, send) => {
    const rule = engine.isIdle()
      ? null
      : engine.pick({ method: null, slot: null, subscription: kind, item: 0, client: '' });
    switch (rule?.action) {
      case 'wsDrop':
        dropSocket(socket, rule.code ?? ABNORMAL);
        return;
      case 'wsSilent':
      case 'wsSkipSlots':
        return;
      case 'wsHalf':
        rawSocket(socket)?.write(HALF_FRAME);
        return;
      case 'duplicate':
        send(text);
        send(text);
        return;
      case 'outOfOrder': {
        const list = [...(held.get(socket) ?? []), text];
        const full = list.length >= (rule.window ?? 2);
        held.set(socket, full ? [] : list);
        if (full) for (const item of list.toReversed()) send(item);
        return;
      }
      default:
        send(text);
    }
  };
}

/** Whether a ping is answered. */
function answersPing(engine: FaultEngine): boolean {
  return (
    engine.isIdle() || engine.pick({ method: null, slot: null, subscription: 'ping', item: 0, client: '' }) === null
  );
}

function dropSocket(socket: WebSocket, code: number): void {
  if (code === ABNORMAL) socket.terminate();
  else socket.close(code);
}

/** Half a frame cannot be sent through the library on purpose: it goes past it. */
function rawSocket(socket: WebSocket): { write(data: Buffer): void } | undefined {
  return (socket as unknown as { _socket?: { write(data: Buffer): void } })._socket;
}
