import { JsonCursor, Unusual } from '../lib/json-cursor.ts';
import type { BlockHeader, ChainBlock } from '../ports/block.ts';
import { decodeTransaction } from './decode/decode-block.ts';

/** The pieces of the JSON text of a block, as ledger and archive keep them. */

/** The texts of the transactions of a block; none when it has another form. */
export function elementsOf(text: Buffer): Buffer[] {
  const cursor = new JsonCursor(text);
  const found: Buffer[] = [];
  try {
    for (let more = cursor.firstMember(); more; more = cursor.nextMember()) {
      if (cursor.memberName() !== 'transactions') {
        cursor.value();
        continue;
      }
      for (let next = cursor.firstElement(); next; next = cursor.nextElement()) {
        cursor.peek();
        const from = cursor.at;
        cursor.value();
        found.push(text.subarray(from, cursor.at));
      }
    }
  } catch (error) {
    if (!(error instanceof Unusual)) throw error;
    return [];
  }
  return found;
}

interface TransactionText {
  readonly slot: number;
  readonly index: number;
  readonly header: BlockHeader;
  readonly signature: string;
  readonly text: Buffer;
  block(): ChainBlock;
}

/** One of these texts with the block that it stands in; null without a text. Errors: as `decodeBlock`. */
export function transactionOf(
  header: BlockHeader,
  { slot, index }: Pick<TransactionText, 'slot' | 'index'>,
  text: Buffer | undefined,
): TransactionText | null {
  if (text === undefined) return null;
  const { blockTime } = header;
  const block = () => decodeTransaction({ ...(JSON.parse(text.toString()) as object), slot, blockTime });
  return { slot, index, header, text, block, signature: block().transactions[0]!.signature };
}
