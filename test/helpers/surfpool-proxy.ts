import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import bs58 from 'bs58';
import { type RawData, WebSocket, WebSocketServer } from 'ws';

interface RpcRequest {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: readonly unknown[];
}
interface Block {
  parentSlot: number;
  blockhash: string;
  previousBlockhash: string;
  blockHeight: number | null;
  blockTime: number | null;
}

/** How far back the previous slot with a block is looked for. */
const LOOK_BACK_SLOTS = 50;

interface Addresses {
  readonly rpcUrl: string;
  readonly wsUrl: string;
}

/**
 * Repairs what the third-party node gets wrong so that nobody could follow it or wait for it: in `getBlock`, blocks with transactions
 * name themselves as parent and take their hash from another numbering; `signatureSubscribe` looks at the status and then
 * subscribes, so what is executed in between is never told. Everything else passes through byte for byte.
 */
export async function startSurfpoolProxy(node: Addresses): Promise<Addresses & { close(): Promise<void> }> {
  const server = createServer((request, response) => {
    void answer(node.rpcUrl, request, response).catch((error: unknown) => {
      response.writeHead(502).end(String(error));
    });
  });
  const sockets = new WebSocketServer({ server });
  sockets.on('connection', (client) => joinSockets(client, node));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    rpcUrl: `http://127.0.0.1:${port}`,
    wsUrl: `ws://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        for (const client of sockets.clients) client.terminate();
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

type SignatureParams = readonly [signature: string, options?: { readonly commitment?: string }];
interface SocketMessage {
  readonly id?: unknown;
  readonly method?: string;
  readonly result?: unknown;
  readonly params?: unknown;
}

/** A connection to the node for each client. */
function joinSockets(client: WebSocket, { rpcUrl, wsUrl }: Addresses): void {
  const node = new WebSocket(wsUrl);
  const early: RawData[] = [];
  const asked = new Map<unknown, SignatureParams>();
  /** Subscriptions whose signature was not told. */
  const waiting = new Set<number>();
  const end = () => {
    waiting.clear();
    node.terminate();
    client.terminate();
  };
  for (const side of [client, node]) side.on('close', end).on('error', end);
  node.on('open', () => {
    for (const data of early) node.send(String(data));
    early.length = 0;
  });
  client.on('message', (data) => {
    const { id, method, params } = JSON.parse(String(data)) as SocketMessage;
    if (method === 'signatureSubscribe') asked.set(id, params as SignatureParams);
    if (method === 'signatureUnsubscribe') waiting.delete((params as readonly number[])[0]!);
    if (node.readyState === WebSocket.CONNECTING) early.push(data);
    else node.send(String(data));
  });
  node.on('message', (data) => {
    const { id, method, result, params } = JSON.parse(String(data)) as SocketMessage;
    if (method === 'signatureNotification') {
      const { subscription, result: told } = params as { subscription: number; result: { value: unknown } };
      if (told.value !== 'receivedSignature' && !waiting.delete(subscription)) return;
    }
    client.send(String(data));
    const signature = asked.get(id);
    if (signature === undefined || !asked.delete(id) || typeof result !== 'number') return;
    waiting.add(result);
    void tellSignature(signature, result).catch(end);
  });

  /** Asks for the status until it is as far as the client wants, unless the node tells it first. */
  async function tellSignature([signature, options]: SignatureParams, subscription: number): Promise<void> {
    const wanted = COMMITMENTS.indexOf(options?.commitment ?? 'finalized');
    for (; waiting.has(subscription); await sleep(100)) {
      const { context, value } = await rpc<StatusReply>(rpcUrl, 'getSignatureStatuses', [[signature]]);
      const [status] = value;
      if (!status || COMMITMENTS.indexOf(status.confirmationStatus) < wanted || !waiting.delete(subscription)) continue;
      const told = { context: { slot: context.slot }, value: { err: status.err } };
      const notice = { jsonrpc: '2.0', method: 'signatureNotification', params: { result: told, subscription } };
      client.send(JSON.stringify(notice));
    }
  }
}

const COMMITMENTS = ['processed', 'confirmed', 'finalized'];
interface StatusReply {
  readonly context: { readonly slot: number };
  readonly value: readonly ({ readonly confirmationStatus: string; readonly err: unknown } | null)[];
}

async function answer(target: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks).toString();
  const call = JSON.parse(body) as RpcRequest;
  const upstream = await fetch(target, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  let text = await upstream.text();
  if (call.method === 'getBlock') text = await repair(target, call, text);
  response.writeHead(upstream.status, { 'content-type': 'application/json' }).end(text);
}

async function repair(target: string, call: RpcRequest, text: string): Promise<string> {
  const reply = JSON.parse(text) as { result?: Block | null };
  if (!reply.result) return text;
  const slot = call.params?.[0] as number;
  const produced = await rpc<number[]>(target, 'getBlocks', [
    Math.max(0, slot - LOOK_BACK_SLOTS),
    slot,
    { commitment: 'confirmed' },
  ]);
  const parent = produced.filter((other) => other < slot).at(-1) ?? slot - 1;
  reply.result.parentSlot = parent;
  reply.result.blockhash = hashOf(slot);
  reply.result.previousBlockhash = hashOf(parent);
  reply.result.blockHeight = slot;
  reply.result.blockTime = await rpc<number | null>(target, 'getBlockTime', [slot]).catch(() => null);
  return JSON.stringify(reply);
}

/** A hash that names the slot only: the node has one branch. */
function hashOf(slot: number): string {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(slot));
  return bs58.encode(createHash('sha256').update('surfpool').update(bytes).digest());
}

async function rpc<T>(target: string, method: string, params: readonly unknown[]): Promise<T> {
  const response = await fetch(target, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  const reply = (await response.json()) as { result?: T; error?: { message: string } };
  if (reply.result === undefined) throw new Error(`${method}: ${reply.error?.message}`);
  return reply.result;
}
