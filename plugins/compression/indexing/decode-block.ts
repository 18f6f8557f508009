import { decode32 } from '../../../src/lib/base58.ts';
import type { ChainBlock } from '../../../src/plugin/plugin.ts';
import type { NormalTransaction } from '../../../src/ports/block.ts';
import { decodeCompression } from '../../../src/solana/compression/decode-compression.ts';
import type { CompressionEvent, DecodeFault } from '../../../src/solana/compression/events.ts';
import { createProgramFinder, type ProgramIds } from '../../../src/solana/compression/instructions.ts';
import { VOTE_PROGRAM } from '../../../src/solana/programs.ts';
import type { NewTree } from '../trees/tree-book.ts';
import type { CnftBlock } from './cnft.ts';

const VOTE = decode32(VOTE_PROGRAM);
/** Length of the list of other transactions. */
const MAX_OTHERS = 1_000;

/** Reads blocks. Never throws: unreadable data is a fault of its transaction. */
export function createBlockDecoder(
  programId: string,
  decodeConcurrent: (block: ChainBlock) => CnftBlock | null = () => null,
): (block: ChainBlock) => DecodedBlock {
  const findPrograms = createProgramFinder(programId);
  return (block) => {
    const ids = findPrograms(block.keys);
    const vote = VOTE === null ? -1 : block.keys.find(VOTE);
    const transactions: DecodedTransaction[] = [];
    const others: NormalTransaction[] = [];
    for (const transaction of block.transactions) {
      const decoded = ids.compression < 0 ? null : decodeOne(transaction, block, ids);
      if (decoded !== null) transactions.push(decoded);
      else if (!hasVote(transaction, vote)) others.push(transaction);
    }
    return {
      slot: block.slot,
      blockTime: block.blockTime,
      transactions,
      others: otherTransactions(others),
      newTrees: [],
      foreign: [],
      concurrent: decodeConcurrent(block),
    };
  };
}

function decodeOne(transaction: NormalTransaction, block: ChainBlock, ids: ProgramIds): DecodedTransaction | null {
  const signature = transaction.signatures[0] ?? new Uint8Array(64);
  try {
    const { events, faults } = decodeCompression(transaction, block.keys, ids);
    return events.length + faults.length === 0 ? null : { signature, events, faults };
  } catch (error) {
    // A bug of ours: indexing continues, and every tree that the transaction names becomes a suspect.
    const trees = Array.from(transaction.keys, (id) => block.keys.bytes(id).slice());
    const reason = error instanceof Error ? error.message : String(error);
    return { signature, events: [], faults: [{ reason, trees }] };
  }
}

const hasVote = ({ isVote, keys, instructions }: NormalTransaction, vote: number): boolean =>
  isVote || (vote >= 0 && instructions.some(({ programIndex }) => keys[programIndex] === vote));

/** Signatures and errors; above the limit those that are listed first: the largest signatures. */
function otherTransactions(transactions: readonly NormalTransaction[]): DecodedBlock['others'] {
  const kept =
    transactions.length <= MAX_OTHERS
      ? transactions
      : [...transactions]
          .sort((a, b) => Buffer.compare(b.signatures[0] ?? b.recentBlockhash, a.signatures[0] ?? a.recentBlockhash))
          .slice(0, MAX_OTHERS);
  return kept.map(({ signature, error }) => [signature, error === null ? null : JSON.stringify(error)]);
}

/** A transaction with events, readable or not. */
export interface DecodedTransaction {
  /** 64 bytes. */
  readonly signature: Uint8Array;
  readonly events: readonly CompressionEvent[];
  readonly faults: readonly DecodeFault[];
}

/** The relevant content of a block: enough to apply it again without the block. */
export interface DecodedBlock {
  readonly slot: number;
  /** Unix seconds. */
  readonly blockTime: number | null;
  readonly transactions: readonly DecodedTransaction[];
  /** Other non-vote transactions: signature, and the JSON text of the error or null. */
  readonly others: readonly (readonly [string, string | null])[];
  /** Trees that were unknown when the block arrived. */
  readonly newTrees: readonly NewTree[];
  /** Keys that are not our trees. */
  readonly foreign: readonly { readonly key: Uint8Array; readonly reason: string }[];
  /** Changes of trees of compressed NFTs, if any. */
  readonly concurrent?: CnftBlock | null;
}
