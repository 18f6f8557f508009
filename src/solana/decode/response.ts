import { isAscii } from 'node:buffer';
import { decode32 } from '../../lib/base58.ts';
import { CodedError } from '../../lib/coded-error.ts';
import { parseExact } from '../../lib/json.ts';
import type { BlockHeader } from '../../ports/block.ts';

/**
 * Parses the body of a JSON-RPC answer. Pure ASCII, the usual case, skips the cost of UTF-8; only log messages can contain more.
 * Throws CHAIN_BAD_RESPONSE when the body is not JSON.
 */
export const decodeResponse = (body: Buffer): unknown => parseBody(body, JSON.parse);

/** Like `decodeResponse`; integers that a double cannot hold become bigints. */
export const decodeExact = (body: Buffer): unknown => parseBody(body, parseExact);

function parseBody(body: Buffer, parse: (text: string) => unknown): unknown {
  const text = isAscii(body) ? body.toString('latin1') : body.toString('utf8');
  try {
    return parse(text);
  } catch {
    // The message of the parser quotes the body and is therefore dropped.
    throw new CodedError('CHAIN_BAD_RESPONSE', `an answer of ${body.length} bytes is not JSON`, { retryable: true });
  }
}

/**
 * The header in a parsed `getBlock` result of any detail level. Throws CHAIN_BAD_BLOCK (facts {slot, reason}) when it lacks
 * members that link blocks, or is inconsistent.
 */
export function decodeHeader(slot: number, result: unknown): BlockHeader {
  if (typeof result !== 'object' || result === null) throw badBlock(slot, 'the block is no object');
  const { parentSlot, blockhash, previousBlockhash, blockHeight, blockTime } = result as Partial<BlockHeader>;
  if (!isHash(blockhash)) throw badBlock(slot, 'blockhash is missing');
  if (!isHash(previousBlockhash)) throw badBlock(slot, 'previousBlockhash is missing');
  if (!Number.isSafeInteger(parentSlot) || parentSlot! < 0) throw badBlock(slot, 'parentSlot is missing');
  // The first block of a chain is its own parent.
  if (parentSlot! >= slot && slot !== 0) throw badBlock(slot, `parentSlot ${parentSlot} is not below the slot`);
  return {
    slot,
    parentSlot: parentSlot!,
    blockhash,
    previousBlockhash,
    blockHeight: Number.isSafeInteger(blockHeight) ? blockHeight! : null,
    blockTime: Number.isSafeInteger(blockTime) ? blockTime! : null,
  };
}

function isHash(value: unknown): value is string {
  return typeof value === 'string' && decode32(value) !== null;
}

/** CHAIN_BAD_TRANSACTION: the bytes of one transaction cannot be read. */
export function badTransaction(index: number, reason: string): CodedError {
  return new CodedError('CHAIN_BAD_TRANSACTION', `transaction ${index} cannot be decoded: ${reason}`, {
    facts: { index, reason },
  });
}

/** CHAIN_BAD_BLOCK: the answer is inconsistent or lacks what every block has. `index`: the transaction, if any. */
export function badBlock(slot: number, reason: string, index?: number): CodedError {
  const where = index === undefined ? '' : `, transaction ${index}`;
  return new CodedError('CHAIN_BAD_BLOCK', `block ${slot}${where}: ${reason}`, {
    facts: index === undefined ? { slot, reason } : { slot, index, reason },
  });
}
