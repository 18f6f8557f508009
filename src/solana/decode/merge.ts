import { isPlainObject } from '../../lib/json.ts';
import { type ChainBlock, isPlaceholder, type NormalTransaction } from '../../ports/block.ts';
import { decodeBlock } from './decode-block.ts';
import { ScannedBlock, scanBlockAnswer } from './scan-block.ts';
import { KEPT_WIRE } from './wire-bytes.ts';

/** An answer to `getBlock`, and what was decoded from it. */
export interface DecodedAnswer {
  /** Parsed, or scanned. */
  readonly result: unknown;
  readonly block: ChainBlock;
}

/**
 * A block in base64 whose opaque transactions are replaced by those of the same block as JSON, where that says more. Each keeps its bytes in
 * base64 (`KEPT_WIRE`), all others their text. Null when the other answer is of another block, or says nothing more.
 */
export function mergeJson(base: DecodedAnswer, json: DecodedAnswer): ChainBlock | null {
  const { transactions, slot, blockhash } = base.block;
  const others = json.block.transactions;
  if (json.block.blockhash !== blockhash || others.length !== transactions.length) return null;
  const better = new Set(
    transactions.flatMap((own, index) => (own.isOpaque && saysMore(others[index]!, own) ? [index] : [])),
  );
  if (better.size === 0) return null;
  const entryOf = (index: number) => entryText(transactions[index]!, others[index]!);
  if (base.result instanceof ScannedBlock) return decodeBlock(slot, mergeTexts(base.result, better, entryOf));
  const entries = (base.result as { readonly transactions: readonly unknown[] }).transactions;
  const merged = entries.map((entry, index) => (better.has(index) ? JSON.parse(entryOf(index)) : entry));
  return decodeBlock(slot, { ...(base.result as object), transactions: merged });
}

function saysMore(other: NormalTransaction, own: NormalTransaction): boolean {
  if (!other.isOpaque) return true;
  return other.keys.length > own.keys.length || (isPlaceholder(own.signature) && !isPlaceholder(other.signature));
}

function entryText(own: NormalTransaction, other: NormalTransaction): string {
  const text = other.entryText.toString();
  // Bytes that break the format of their version are not those of what the JSON shows.
  if (own.wire === null || (own.fault?.kind !== 'version' && !other.isOpaque)) return text;
  const end = text.lastIndexOf('}');
  return `${text.slice(0, end)},"${KEPT_WIRE}":"${Buffer.from(own.wire).toString('base64')}"}`;
}

function mergeTexts(base: ScannedBlock, better: ReadonlySet<number>, entryOf: (index: number) => string): unknown {
  const parts: Buffer[] = [];
  let from = 0;
  for (const index of [...better].sort((a, b) => a - b)) {
    const span = base.entries[index]!;
    parts.push(base.body.subarray(from, span.from), Buffer.from(entryOf(index)));
    from = span.to;
  }
  parts.push(base.body.subarray(from));
  const body = Buffer.concat(parts);
  const scanned = scanBlockAnswer(body);
  if (scanned !== null) return scanned;
  const answer: unknown = JSON.parse(body.toString());
  return isPlainObject(answer) ? answer['result'] : null;
}
