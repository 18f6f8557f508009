import type { ArchiveEngine, ArchiveReader } from '../ports/archive.ts';
import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import { createArchiveReader } from './reader.ts';
import { type ArchiveMeter, type ArchiveWriter, type ArchiveWriterOptions, startArchiveWriter } from './writer.ts';

/**
 * The archive of a chain: final blocks of the ledger in ClickHouse, for what outgrows one disk. `tables.ts` has the schema, `writer.ts`
 * copies, and `reader.ts` answers the look-ups of the ledger's port.
 */
export interface Archive {
  readonly reader: ArchiveReader;
  /** The ledger has to keep blocks above this slot. */
  held(): number;
  /** Copies the final blocks of a ledger from now on. In the thread that writes it. */
  follow(ledger: ArchiveWriterOptions['ledger']): void;
  /** Ends after the batch in flight. */
  stop(): Promise<void>;
}

export interface ArchiveOptions {
  readonly engine: ArchiveEngine;
  readonly clock: Clock;
  readonly log: Log;
  /** Null in threads that only read. */
  readonly meter: ArchiveMeter | null;
}

export function createArchive({ engine, clock, log, meter }: ArchiveOptions): Archive {
  let writer: ArchiveWriter | null = null;
  return {
    reader: createArchiveReader(engine, clock),
    held: () => writer?.slot ?? -1,
    follow(ledger) {
      if (meter !== null) writer ??= startArchiveWriter({ engine, ledger, clock, log, meter });
    },
    async stop() {
      await writer?.stop();
      await engine.close();
    },
  };
}

export { createPastReader } from './past.ts';
export { createArchiveMeter } from './writer.ts';
