import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import bs58 from 'bs58';

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

/**
 * Repairs what the third-party node gets wrong in `getBlock`: blocks with transactions name themselves as parent and take their
 * hash from another numbering. Everything else passes through byte for byte.
 */
export async function startSurfpoolProxy(target: string): Promise<{ url: string; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    void answer(target, request, response).catch((error: unknown) => {
      response.writeHead(502).end(String(error));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
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
