import { createHash } from 'node:crypto';
import { encode, encode32 } from '../../../src/lib/base58.ts';
import type { BlockHeader } from '../../../src/ports/block.ts';
import { placeholderSignature } from '../../../src/solana/decode/transaction.ts';
import { BLOCK_FORMS } from '../../helpers/block-forms.ts';
import { entryOf, sampleMessage } from '../../helpers/rpc-block.ts';
import type { Sfc32 } from '../../helpers/sfc32.ts';

export interface WorldBlock extends BlockHeader {
  /** base58, as they are found in the transactions of the block. */
  readonly signatures: readonly string[];
  readonly names: readonly string[];
  /** How the follower names a last transaction that cannot be read: its signature where that is readable, else a placeholder of its place. */
  readonly unread: readonly string[];
  /** JSON of the transactions, in encoding base64. */
  readonly transactionsText: string;
  /** JSON of the rewards; absent: the node tells none. */
  readonly rewardsText?: string;
  /** Hashes for liars; of no block. */
  readonly forgedHash: string;
  readonly falseLink: string;
}

/** The truth: one canonical chain that grows, skips and forks. */
export interface World {
  readonly genesisHash: string;
  readonly chain: readonly WorldBlock[];
  /** Newest slot, with or without a block. */
  readonly slot: number;
  /** The newest slot that any branch ever had. */
  readonly highestSlot: number;
  readonly finalizedSlot: number;
  /** `rewardsText`: JSON. */
  grow(skips?: number, transactions?: number, rewardsText?: string): void;
  /** Drops the newest blocks; the next one grows from what is left. Some of what was in them lands again later. */
  fork(depth: number): void;
  /** Puts other blocks in the places of the newest ones. */
  replaceTop(count: number): void;
  /** Makes everything final. */
  finalizeAll(): void;
  /** Last TowerBFT block of a chain that has moved to Alpenglow; null: not moved. */
  readonly genesisSlot: number | null;
  /** Moves to Alpenglow: every block from now on is final at once. */
  migrate(): void;
  /** Blocks without transactions are named by their parent alone, so that siblings share a name (Agave 4.3 and later). */
  sharesEmptyHashes: boolean;
  /** Every fourth transaction has a form beyond those of today, and every third block ends with one that nobody can read. */
  hasForms: boolean;
  blockAt(slot: number): WorldBlock | undefined;
}

export const FIRST_SLOT = 100;
/** One of them is in each transaction. */
export const KEYS: readonly Uint8Array[] = [10, 11, 12].map((byte) => new Uint8Array(32).fill(byte));
/** Which one, by its number. */
export const keyOf = (signature: string): number => signature.charCodeAt(5) % KEYS.length;

/** Writes a transaction with the given signature, as `getBlock` has it. */
export type WriteEntry = (signature: Uint8Array, text: string) => object;

/** `name`: of another chain, none of whose blocks is of the usual one. */
export function createWorld(
  random: Sfc32,
  finalityDepth = 12,
  name = '',
  firstSlot = FIRST_SLOT,
  write: WriteEntry = sampleEntry,
  /** By the times of the blocks. */
  slotMs = 1_000,
): World {
  let chain: WorldBlock[] = [];
  let slot = firstSlot - 1;
  let highestSlot = slot;
  let made = 0;
  let finalizedSlot = firstSlot;
  let genesisSlot: number | null = null;
  let sharesEmptyHashes = false;
  let hasForms = false;
  /** Names of dropped transactions that may land again. */
  let dropped: string[] = [];

  function grow(skips = 0, transactions = random.below(4), rewardsText?: string): void {
    slot += 1 + skips;
    highestSlot = Math.max(highestSlot, slot);
    made += 1;
    const parent = chain.at(-1);
    const again = dropped.splice(0, random.below(3));
    const names = Array.from({ length: transactions }, (_, index) => `${name}tx-${made}-${index}`);
    const isNamedByParent = sharesEmptyHashes && parent !== undefined && again.length + names.length === 0;
    chain = [
      ...chain,
      {
        slot,
        parentSlot: parent?.slot ?? firstSlot - 1,
        blockhash: hashOf(isNamedByParent ? `empty after ${parent.blockhash}` : `${name}block ${made} at ${slot}`),
        previousBlockhash: parent?.blockhash ?? hashOf(`${name}genesis`),
        blockHeight: chain.length,
        // Siblings in one slot that share a name are one and the same.
        blockTime:
          (isNamedByParent ? slot : made) % 7 === 0 ? null : 1_700_000_000 + Math.floor((slot * slotMs) / 1_000),
        ...transactionsOf([...again, ...names], write, hasForms ? { slot, name: `${name}unread ${made}` } : null),
        ...(rewardsText === undefined ? {} : { rewardsText }),
        forgedHash: hashOf(`forged-${slot}`),
        falseLink: hashOf(`false-link-of-${slot}`),
      },
    ];
    const depth = genesisSlot === null ? finalityDepth : 0;
    finalizedSlot = Math.max(finalizedSlot, chain.at(-1 - depth)?.slot ?? 0);
  }
  grow();
  return {
    genesisHash: hashOf(`${name}genesis`),
    get chain() {
      return chain;
    },
    get slot() {
      return slot;
    },
    get highestSlot() {
      return highestSlot;
    },
    get finalizedSlot() {
      return finalizedSlot;
    },
    grow,
    fork(depth) {
      const mayGo = chain.filter((block) => block.slot > finalizedSlot).length;
      const count = Math.min(depth, mayGo, chain.length - 1);
      if (count > 0) {
        const lost = chain.slice(-count).flatMap(({ names }) => names);
        dropped = [...dropped, ...lost.filter(() => random.float() < 0.6)].slice(0, 40);
        chain = chain.slice(0, -count);
      }
      // Half of the time the new branch re-uses the slots of the old one.
      if (random.float() < 0.5) slot = chain.at(-1)!.slot;
    },
    replaceTop(count) {
      chain = chain.slice(0, -count);
      slot = chain.at(-1)!.slot;
      for (let left = count; left > 0; left -= 1) grow();
    },
    get genesisSlot() {
      return genesisSlot;
    },
    migrate() {
      genesisSlot ??= chain.at(-1)!.slot;
      finalizedSlot = Math.max(finalizedSlot, genesisSlot);
    },
    get sharesEmptyHashes() {
      return sharesEmptyHashes;
    },
    set sharesEmptyHashes(value) {
      sharesEmptyHashes = value;
    },
    get hasForms() {
      return hasForms;
    },
    set hasForms(value) {
      hasForms = value;
    },
    finalizeAll() {
      finalizedSlot = slot;
    },
    blockAt: (wanted) => chain.find((block) => block.slot === wanted),
  };
}

/** The result of getBlock without transactions. */
export function headerText({ parentSlot, blockhash, previousBlockhash, blockHeight, blockTime }: WorldBlock): string {
  return JSON.stringify({ parentSlot, blockhash, previousBlockhash, blockHeight, blockTime });
}

/** The result of getBlock with signatures alone. */
export function signaturesText(block: WorldBlock): string {
  return headerText(block).replace(/}$/, `,"signatures":${JSON.stringify(block.signatures)}}`);
}

/** The result of getBlock. */
export function blockText(block: WorldBlock): string {
  const rewards = block.rewardsText === undefined ? '' : `,"rewards":${block.rewardsText}`;
  return headerText(block).replace(/}$/, `,"transactions":${block.transactionsText}${rewards}}`);
}

function sampleEntry(signature: Uint8Array, text: string): object {
  const [first, last] = [sampleMessage().keys[0]!, sampleMessage().keys[2]!];
  const message = sampleMessage({ keys: [first, KEYS[keyOf(text)]!, last] });
  return entryOf({ message, signatures: [signature] });
}

/** Forms with the program of the usual transactions, so that every kind of processor finds them. */
const FORMS = BLOCK_FORMS.filter(({ readable, entry, json }) => {
  // The fake nodes have no block as JSON.
  if (readable !== 'all' || json !== undefined) return false;
  const text = entry({ signature: new Uint8Array(64).fill(1), payer: KEYS[0]! });
  const { transaction, meta } = JSON.parse(text) as {
    readonly transaction: unknown;
    readonly meta?: { readonly err?: unknown } | null;
  };
  const wire = Array.isArray(transaction) && transaction[1] === 'base64' ? String(transaction[0]) : '';
  // Failed ones have no events.
  return meta?.err === null && Buffer.from(wire, 'base64').includes(Buffer.alloc(32, 3));
});

function formEntry(signature: Uint8Array, text: string): string {
  const form = FORMS[((signature[1]! << 8) | signature[2]!) % FORMS.length]!;
  return form.entry({ signature: new Uint8Array(signature), payer: KEYS[keyOf(text)]! });
}

/** Forms of which a reader finds neither instructions nor anybody who takes part; as JSON no node has them. */
const UNREAD = BLOCK_FORMS.filter(
  ({ readable, json }) => ['none', 'signature'].includes(readable) && json === undefined,
);

/** A transaction that nobody can read, where the made-up chain puts one; and how the follower names it. */
function unreadEntry(
  { slot, name }: FormBlock,
  index: number,
): { readonly name: string; readonly text: string } | null {
  const signature = createHash('sha512').update(name).digest();
  if (signature[0]! % 3 !== 0) return null;
  const form = UNREAD[signature[1]! % UNREAD.length]!;
  const isNamed = form.readable === 'signature';
  return {
    name: encode(isNamed ? signature : placeholderSignature(slot, index)),
    text: form.entry({ signature: new Uint8Array(signature), payer: KEYS[0]! }),
  };
}

/** A block whose transactions have forms beyond those of today. */
interface FormBlock {
  readonly slot: number;
  readonly name: string;
}

function transactionsOf(
  names: readonly string[],
  write: WriteEntry,
  forms: FormBlock | null,
): Pick<WorldBlock, 'names' | 'signatures' | 'unread' | 'transactionsText'> {
  const made = names.map((name) => createHash('sha512').update(name).digest());
  const signatures = made.map((bytes) => encode(bytes));
  const entries = made.map((bytes, index) =>
    forms !== null && bytes[0]! % 4 === 0
      ? formEntry(bytes, signatures[index]!)
      : JSON.stringify(write(bytes, signatures[index]!)),
  );
  // Blocks that are named by their parent alone stay empty.
  const unread = forms === null || names.length === 0 ? null : unreadEntry(forms, names.length);
  return {
    names,
    signatures,
    unread: unread === null ? [] : [unread.name],
    transactionsText: `[${[...entries, ...(unread === null ? [] : [unread.text])].join()}]`,
  };
}

const hashOf = (text: string) => encode32(createHash('sha256').update(text).digest());
