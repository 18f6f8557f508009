import { createHash } from 'node:crypto';
import { decode32, encode32 } from '../../lib/base58.ts';
import { fork } from '../ledger/forks.ts';
import type { RpcRequest, RpcResponse } from '../rpc/dispatch.ts';
import type { LocalNode } from '../rpc/node.ts';
import { RPC } from '../rpc/rpc-error.ts';
import type { FaultRule } from './engine.ts';

type Json = Record<string, unknown>;
interface Steps {
  readonly by?: number;
}

interface Place {
  readonly index?: number;
}

type Change = (result: unknown, request: RpcRequest, rule: never) => unknown;

/** Runs a call under a rule: some rules act before it, some instead of it, the others change its result. */
export function answerUnder(
  rule: FaultRule,
  node: LocalNode,
  request: RpcRequest,
  run: () => RpcResponse,
): RpcResponse {
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

/** The same slots in the same order, each with its entries turned round. */
function reverseInSlots<T extends { slot: number }>(list: readonly T[]): T[] {
  const groups: T[][] = [];
  for (const item of list) {
    if (groups.at(-1)?.[0]?.slot === item.slot) groups.at(-1)!.unshift(item);
    else groups.push([item]);
  }
  return groups.flat();
}
