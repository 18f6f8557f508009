/** What a node tells of addresses and single transactions, out of its view of the made-up chain. */
import { createHash } from 'node:crypto';
import { encode32 } from '../../../src/lib/base58.ts';
import { sampleMessage } from '../../helpers/rpc-block.ts';
import type { NodeAnswer } from './fake-node.ts';
import { KEYS, keyOf, type WorldBlock } from './world.ts';

/** base58 of `KEYS`, and of the one that pays for all transactions. */
export const KEY_TEXTS: readonly string[] = KEYS.map((key) => encode32(key));
export const PAYER_TEXT: string = encode32(sampleMessage().keys[0]!);
const GENESIS_HASH = encode32(createHash('sha256').update('the made-up chain').digest());

interface ListOptions {
  readonly limit?: number;
  readonly before?: string;
  readonly commitment?: string;
  readonly minContextSlot?: number;
}

export const touches = (address: string, signature: string): boolean =>
  address === PAYER_TEXT || address === KEY_TEXTS[keyOf(signature)];

/** Signatures of an address, newest first. */
export function listOf(blocks: readonly WorldBlock[], address: string) {
  return blocks.toReversed().flatMap(({ slot, blockTime, signatures }) =>
    signatures
      .filter((signature) => touches(address, signature))
      .toReversed()
      .map((signature) => ({ signature, slot, blockTime, err: null, memo: null })),
  );
}

/** Null for a method that is none of these. */
export function accountAnswer(
  method: string,
  params: readonly unknown[],
  view: (commitment: string | undefined) => readonly WorldBlock[],
): NodeAnswer | null {
  switch (method) {
    case 'getGenesisHash':
      return { result: JSON.stringify(GENESIS_HASH) };
    case 'getSignaturesForAddress':
      return signatures(params[0] as string, params[1] as ListOptions, view);
    case 'getTransaction':
      return transaction(params[0] as string, view((params[1] as ListOptions).commitment));
    case 'getTokenAccountsByOwner':
      return { result: '{"context":{"slot":1},"value":[]}' };
    case 'getMultipleAccounts':
      return { result: JSON.stringify({ context: { slot: 1 }, value: (params[0] as unknown[]).map(() => null) }) };
    default:
      return null;
  }
}

function signatures(
  address: string,
  { limit = 1_000, before, commitment, minContextSlot = 0 }: ListOptions,
  view: (commitment: string | undefined) => readonly WorldBlock[],
): NodeAnswer {
  const blocks = view(commitment);
  if ((blocks.at(-1)?.slot ?? 0) < minContextSlot)
    return { error: { code: -32016, message: 'Minimum context slot has not been reached' } };
  const list = listOf(blocks, address);
  const place = list.findIndex(({ signature }) => signature === before);
  // As nodes do: behind a signature that it does not know it has nothing.
  const from = before === undefined ? 0 : place < 0 ? list.length : place + 1;
  return { result: JSON.stringify(list.slice(from, from + limit)) };
}

function transaction(signature: string, blocks: readonly WorldBlock[]): NodeAnswer {
  const block = blocks.find((candidate) => candidate.signatures.includes(signature));
  if (block === undefined) return { result: 'null' };
  const { slot, blockTime } = block;
  const entry = (JSON.parse(block.transactionsText) as object[])[block.signatures.indexOf(signature)];
  return { result: JSON.stringify({ slot, blockTime, ...entry }) };
}
