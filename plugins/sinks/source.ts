import { CodedError, messageOf, OWN_WORK } from '../../src/plugin/plugin.ts';
import type { BlockHeader, ChainBlock } from '../../src/ports/block.ts';
import type { ChainReader } from '../../src/ports/chain.ts';
import type { LedgerReader, PastReader } from '../../src/ports/ledger.ts';
import { decodeBlockText } from '../../src/solana/decode/decode-block.ts';

export interface SourceParts {
  readonly ledger: () => LedgerReader | null;
  readonly past: () => PastReader | null;
  readonly chain: () => ChainReader | null;
  /** `follow.maxSupportedTransactionVersion` */
  readonly maxVersion: number;
  /** A hole was found, and is filled from upstreams. */
  readonly foundHole: (from: number) => void;
}

/** Final blocks from wherever they are: the ledger, its archive, upstreams. */
export interface BlockSource {
  /** The newest final slot, as of now; -1 without one. */
  finalSlot(): Promise<number>;
  /** The lowest slot from which on the ledger has everything; -1 without a block. */
  oldestSlot(): Promise<number>;
  /**
   * The first block in [from, to]; null: all of these slots are skipped. That is proven by the parent of a later block, so `to` must not be
   * above the final slot. Errors: SINKS_HOLE, LEDGER_IO, ARCHIVE_*.
   */
  next(from: number, to: number, signal: AbortSignal): Promise<ChainBlock | null>;
  /** Header of the newest block at or below a slot; null if the ledger lacks a slot between them. */
  headerAt(slot: number): Promise<BlockHeader | null>;
}

/** Slots of one question for what an upstream has. */
const SLOTS_AT_ONCE = 5_000;
const TIMEOUT_MS = 30_000;
/** Lists of upstreams may lack blocks; each missing one is found by the parent of the next. */
const MAX_STEPS_BACK = 5_000;

export function createBlockSource(parts: SourceParts): BlockSource {
  async function known(slot: number): Promise<ChainBlock | 'skipped' | 'unknown'> {
    const ledger = parts.ledger();
    const state = ledger?.state(slot) ?? 'unknown';
    if (state === 'skipped') return 'skipped';
    const block = state === 'block' ? await ledger!.block(slot) : null;
    if (block !== null) return block;
    const past = parts.past();
    if (past === null) return 'unknown';
    // In the archive alone, or damaged in the ledger.
    const states = await past.states(slot, slot);
    if (states.blocks.length === 0) return states.unknown.length > 0 ? 'unknown' : 'skipped';
    const text = await past.text(slot).catch(() => null);
    return text === null ? 'unknown' : decodeBlockText(slot, text);
  }

  async function ask<T>(method: string, params: readonly unknown[], signal: AbortSignal): Promise<T> {
    const chain = parts.chain();
    if (chain === null) throw new Error('no upstream is configured');
    return await chain.call<T>(method, params, { signal, timeoutMs: TIMEOUT_MS, tenant: OWN_WORK, archive: true });
  }

  async function fetched(slot: number, signal: AbortSignal): Promise<ChainBlock> {
    const chain = parts.chain();
    if (chain === null) throw new Error('no upstream is configured');
    const config = {
      encoding: 'base64',
      transactionDetails: 'full',
      // The ledger keeps rewards too: a target of whole blocks gets the same from both.
      rewards: true,
      commitment: 'finalized',
      maxSupportedTransactionVersion: parts.maxVersion,
    };
    const options = { signal, timeoutMs: TIMEOUT_MS, tenant: OWN_WORK, archive: true };
    const text = await chain.callText('getBlock', [slot, config], options);
    if (text === 'null') throw new Error(`no upstream has block ${slot}`);
    return decodeBlockText(slot, Buffer.from(text));
  }

  /** The first block at or above a slot that nobody here knows, up to the newest final one. */
  async function fromUpstreams(from: number, final: number, signal: AbortSignal): Promise<ChainBlock> {
    for (let start = from; start <= final; start += SLOTS_AT_ONCE) {
      const end = Math.min(final, start + SLOTS_AT_ONCE - 1);
      const [first] = await ask<readonly number[]>('getBlocks', [start, end, { commitment: 'finalized' }], signal);
      if (first === undefined) continue;
      let block = await fetched(first, signal);
      for (let steps = 0; block.parentSlot >= from; steps++) {
        if (steps === MAX_STEPS_BACK) throw new Error('lists of blocks lack too many blocks');
        const child = block;
        block = await fetched(child.parentSlot, signal);
        if (block.blockhash !== child.previousBlockhash) throw new Error(`block ${child.slot} names another parent`);
      }
      return block;
    }
    throw new Error('no upstream lists a block there');
  }

  async function fill(from: number, signal: AbortSignal): Promise<ChainBlock> {
    parts.foundHole(from);
    try {
      return await fromUpstreams(from, parts.ledger()?.finalSlot ?? -1, signal);
    } catch (error) {
      signal.throwIfAborted();
      throw new CodedError('SINKS_HOLE', `nobody has the slots from ${from} on: ${messageOf(error)}`, {
        cause: error,
        facts: { slot: from },
        retryable: true,
      });
    }
  }

  return {
    async finalSlot() {
      const ledger = parts.ledger();
      await ledger?.refresh();
      return ledger?.finalSlot ?? -1;
    },
    async oldestSlot() {
      const ledger = parts.ledger();
      await ledger?.refresh();
      return ledger?.firstOfRun() ?? -1;
    },
    async next(from, to, signal) {
      for (let slot = from; slot <= to; slot++) {
        const found = await known(slot);
        if (found === 'skipped') continue;
        if (found !== 'unknown') return found;
        const block = await fill(slot, signal);
        return block.slot <= to ? block : null;
      }
      return null;
    },
    async headerAt(slot) {
      const ledger = parts.ledger();
      const newest = ledger?.newest(slot) ?? -1;
      if (ledger === null || newest < 0) return null;
      for (let at = newest + 1; at <= slot; at++) if (ledger.state(at) === 'unknown') return null;
      return await ledger.header(newest);
    },
  };
}
