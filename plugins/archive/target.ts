import { setImmediate as yieldToOthers } from 'node:timers/promises';
import { CodedError } from '../../src/plugin/plugin.ts';
import type { ArchiveEngine } from '../../src/ports/ledger.ts';
import type { SinkBatch, SinkKind, SinkPosition, SinkTarget } from '../../src/ports/sink.ts';
import { decodeBlockText } from '../../src/solana/decode/decode-block.ts';
import { readRanges } from './ranges.ts';
import { createTables, Rows } from './tables.ts';

/** A batch ends with the first bound that is reached. A batch that is not full waits for more slots: few large parts are what a MergeTree wants. */
const BATCH = { slots: 512, seconds: 5 };

/** The part that goes on with the chain; the other ranges are named by their first slot. */
const LIVE = 'live';

/** The archive behind an engine, as a target of whole blocks. */
export const archiveKind = (engine: ArchiveEngine): SinkKind => ({
  kind: 'archive',
  takes: 'blocks',
  batch: BATCH,
  async open() {
    await createTables(engine);
    return new ArchiveTarget(engine);
  },
});

/**
 * Its parts are the ranges that are complete. They may be written in any order, also between two others: where one meets the next, both are
 * one from then on. A batch is all rows of its slots, and then the row of `ranges` that completes them; rows that are inserted again replace
 * the earlier ones, so a batch that broke off is repeated without harm.
 */
class ArchiveTarget implements SinkTarget {
  readonly #engine: ArchiveEngine;

  constructor(engine: ArchiveEngine) {
    this.#engine = engine;
  }

  async positions(): Promise<readonly SinkPosition[]> {
    const ranges = await readRanges(this.#engine);
    return ranges.map(({ first, last, blockhash }, at) => ({
      part: at === ranges.length - 1 ? LIVE : `from-${first}`,
      first,
      last,
      blockhash,
    }));
  }

  async write({ after, position, first, blocks }: SinkBatch): Promise<SinkPosition> {
    await this.#refuseMoved(after, [first, position.last]);
    const rows = new Rows();
    for (const { slot, text, isVerbatim } of blocks) {
      rows.add(decodeBlockText(slot, Buffer.from(text.buffer, text.byteOffset, text.length)), isVerbatim);
      await yieldToOthers();
    }
    await rows.insert(this.#engine, position);
    return position;
  }

  /** Errors: SINKS_MOVED if the part does not end where it did, or another one has some of these slots. */
  async #refuseMoved(after: SinkPosition | null, [first, last]: readonly [number, number]): Promise<void> {
    const ranges = await readRanges(this.#engine);
    const isThere =
      after === null || ranges.some((range) => range.last === after.last && range.blockhash === after.blockhash);
    if (isThere && !ranges.some((range) => range.first <= last && range.last >= first)) return;
    throw new CodedError('SINKS_MOVED', `the archive has other slots than before: another writer was faster`, {
      facts: { first, last },
      retryable: true,
    });
  }

  /** The engine stays open: it is closed with the plugin. */
  close(): Promise<void> {
    return Promise.resolve();
  }
}
