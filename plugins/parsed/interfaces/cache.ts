import { LRUCache } from 'lru-cache';
import { decode32 } from '../../../src/lib/base58.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import { anchorAddress, programMetadataAddress } from '../../../src/solana/idl/idl-accounts.ts';
import { isWritableAt } from '../../../src/solana/idl/parse-transaction.ts';
import { readIdl } from '../../../src/solana/idl/read-idl.ts';
import { MAX_VERSIONS } from '../store.ts';
import type { KnownPrograms } from './learned.ts';
import { FOREVER, NO_HASH, type Published, type PublishedVersion, sum } from './versions.ts';

/** Estimated overhead of an entry, and of a version besides its text. */
const ENTRY_BYTES = 2_048;
/** A parsed interface takes many times the memory of its text. */
export const MEMORY_PER_CHARACTER = 24;
/** Largest share of a cache (one quarter) for one program or one project. The minimum fits one interface of 300 KB. */
const MIN_SHARE_BYTES = 8_388_608;
export const shareOf = (cacheBytes: number): number => Math.max(MIN_SHARE_BYTES, Math.floor(cacheBytes / 4));
/** Callers never lag each other by more blocks than this. */
const MAX_RUN_HASHES = 256;

/** What followed blocks show of the accounts of a program. */
interface Watched {
  readonly keys: readonly Uint8Array[];
  /** The followed slot up to which writes were not noted; -1: none was followed. */
  readonly since: number;
  /** The newest followed slot in which one was written; -1: none. */
  writtenIn: number;
}

/** What is known of programs on the chain, as far as the last reading and the blocks since then prove it. */
export class PublishedCache {
  /** Characters of all texts that are cached of one program. */
  readonly mostCharacters: number;
  private readonly published: LRUCache<string, Published>;
  /** For cached programs only. */
  private readonly watched = new Map<string, Watched>();
  /** Blocks that followed each other: slots and hashes of the newest ones. */
  private readonly run = { from: Number.POSITIVE_INFINITY, to: -1, hashes: new Map<number, string>() };

  /** `evicted` is called for a program that leaves the cache. */
  constructor(cacheBytes: number, evicted: (program: string) => void) {
    this.mostCharacters = Math.floor((shareOf(cacheBytes) - ENTRY_BYTES * (1 + MAX_VERSIONS)) / MEMORY_PER_CHARACTER);
    this.published = new LRUCache({
      maxSize: cacheBytes,
      sizeCalculation({ versions: certain, doubted }) {
        const versions = doubted?.versions ?? certain;
        return ENTRY_BYTES * (1 + versions.length) + sum(versions.map(({ size }) => size)) * MEMORY_PER_CHARACTER;
      },
      dispose: (_, program, reason) => {
        if (reason === 'set') return;
        this.watched.delete(program);
        evicted(program);
      },
    });
  }

  get(program: string): Published | undefined {
    return this.published.get(program);
  }

  /** Replaces what is known of a program. */
  set(program: string, known: Published): void {
    // Writes are noted from now on, not from when the accounts were read.
    this.watchedOf(program);
    this.published.set(program, known);
  }

  /** Sets it, and gives it to the call that has found it. */
  keep(program: string, known: Published, used: KnownPrograms): void {
    used.set(program, known);
    this.set(program, known);
  }

  /** Whether nothing has changed up to a slot, by the last reading or by the blocks since then. */
  isValid(program: string, slot: number, used: KnownPrograms): boolean {
    const known = used.get(program);
    if (known === undefined) return false;
    if (known.checkedSlot >= slot) return true;
    const { run } = this;
    const { since, writtenIn } = this.watchedOf(program);
    const isFollowed = slot <= run.to && known.checkedSlot >= Math.max(since, run.from - 1);
    if (!isFollowed || writtenIn > known.checkedSlot) return false;
    this.keep(program, { ...known, checkedSlot: slot }, used);
    return true;
  }

  /** Notes the writes of a released block. Blocks may come twice, also after later ones. */
  follow(block: ChainBlock): void {
    const { run } = this;
    const { slot, blockhash, previousBlockhash } = block;
    if (run.hashes.get(slot) === blockhash) return;
    const isNext = slot > run.to && run.hashes.get(run.to) === previousBlockhash;
    if (slot <= run.to) this.forgetFrom(slot);
    if (!isNext) {
      run.hashes.clear();
      run.from = slot;
    }
    run.to = slot;
    run.hashes.set(slot, blockhash);
    if (run.hashes.size > MAX_RUN_HASHES) run.hashes.delete(run.hashes.keys().next().value!);
    for (const program of this.published.keys()) {
      const watched = this.watchedOf(program);
      if (watched.keys.some((key) => isWritten(block, key))) watched.writtenIn = slot;
    }
  }

  /** A text that alone is too large for its share counts as none that can be read. */
  readable(text: string | null): Pick<PublishedVersion, 'program' | 'size'> {
    const program = text === null || text.length > this.mostCharacters ? null : readIdl(text);
    return { program, size: program === null ? 0 : text!.length };
  }

  /** After a fork, changes seen in its blocks are forgotten: they are read again, and then leave the store. */
  private forgetFrom(slot: number): void {
    for (const [program, known] of [...this.published.entries()]) {
      if (known.checkedSlot < slot) continue;
      const left = known.versions.filter(({ from }) => from < slot);
      const isChanged = left.length < known.versions.length;
      const versions = left.map((one) => (one.to >= slot ? { ...one, to: FOREVER } : one));
      this.published.set(program, { versions, hash: isChanged ? NO_HASH : known.hash, checkedSlot: slot - 1 });
      if (isChanged) this.watchedOf(program).writtenIn = slot;
    }
  }

  private watchedOf(program: string): Watched {
    let watched = this.watched.get(program);
    if (watched === undefined) {
      const addresses = [programMetadataAddress(program), anchorAddress(program)];
      const keys = addresses.flatMap((address) => (address === null ? [] : (decode32(address) ?? [])));
      watched = { keys, since: this.run.to, writtenIn: -1 };
      this.watched.set(program, watched);
    }
    return watched;
  }
}

/** Whether a transaction of the block may have changed the account. */
function isWritten({ keys, transactions }: ChainBlock, key: Uint8Array): boolean {
  const id = keys.find(key);
  return id >= 0 && transactions.some((tx) => tx.error === null && isWritableAt(tx, tx.keys.indexOf(id)));
}
