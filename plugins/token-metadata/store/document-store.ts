import { createHash } from 'node:crypto';
import { inList } from '../../../src/lib/in-list.ts';
import type { Clock } from '../../../src/ports/clock.ts';
import type { Log } from '../../../src/ports/log.ts';
import type { Store, StoreTx } from '../../../src/ports/store.ts';
import type { Db } from './tables.ts';
import { createWriteBehind } from './write-behind.ts';

interface Stored {
  readonly answer: OffChainAnswer;
  readonly untilMs: number;
}

/** Documents that outlive the process. */
export interface DocumentStore {
  /** Those that are there and still count. A store that cannot be read has none. */
  load(uris: readonly string[]): Promise<ReadonlyMap<string, Stored>>;
  /** Written a little later. */
  save(uri: string, answer: OffChainAnswer, untilMs: number): void;
  /** Forgets what no longer counts, and the oldest of too many. */
  prune(): Promise<void>;
  flush(): Promise<void>;
  stop(): Promise<void>;
}

interface DocumentStoreParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Log;
  readonly maxKept: number;
}

type Row = readonly [id: string, document: string | null, error: string, untilMs: number];

export function createDocumentStore({ store, clock, log, maxKept }: DocumentStoreParts): DocumentStore {
  const behind = createWriteBehind<Row>({ store, clock, log, what: 'documents', write: writeRows });
  return {
    async load(uris) {
      const uriOf = new Map(uris.map((uri) => [idOf(uri), uri]));
      try {
        const rows = await (store.read as Db)
          .selectFrom('token_metadata_documents')
          .selectAll()
          .where(inList(store.dialect, 'id', [...uriOf.keys()]))
          .where('expires_at', '>', clock.now())
          .execute();
        return new Map(
          rows.map((row) => [uriOf.get(row.id) ?? '', { answer: answerOf(row), untilMs: row.expires_at }]),
        );
      } catch (error) {
        log.warn({ err: error }, 'documents cannot be looked up');
        return new Map();
      }
    },
    save(uri, answer, untilMs) {
      // What stands in the uri itself needs no second place.
      if (uri.slice(0, 5).toLowerCase() === 'data:') return;
      const text = answer.document === null ? null : JSON.stringify(answer.document);
      behind.add(uri, [idOf(uri), text, answer.error, untilMs]);
    },
    prune: () => store.write((tx) => prune(tx, clock.now(), maxKept)),
    flush: behind.flush,
    stop: behind.stop,
  };
}

const idOf = (uri: string): string => createHash('sha256').update(uri).digest('hex');

function answerOf({ document, error }: { document: string | null; error: string }): OffChainAnswer {
  if (document !== null) return { document: JSON.parse(document) as OffChainDocument, error: '' };
  return { document: null, error: error === 'TIMEOUT' ? 'TIMEOUT' : 'UNKNOWN' };
}

async function writeRows(tx: StoreTx, rows: readonly Row[]): Promise<void> {
  const ids = rows.map(([id]) => id);
  await (tx.db as Db)
    .deleteFrom('token_metadata_documents')
    .where(inList(tx.dialect, 'id', ids))
    .execute();
  // Another process may have written the same one in between.
  await tx.insertMany('token_metadata_documents', ['id', 'document', 'error', 'expires_at'], rows, 'ignore');
}

async function prune(tx: StoreTx, now: number, maxKept: number): Promise<void> {
  const db = tx.db as Db;
  await db.deleteFrom('token_metadata_documents').where('expires_at', '<=', now).execute();
  const oldest = await db
    .selectFrom('token_metadata_documents')
    .select('expires_at')
    .orderBy('expires_at', 'desc')
    .offset(maxKept)
    .limit(1)
    .executeTakeFirst();
  if (oldest === undefined) return;
  await db.deleteFrom('token_metadata_documents').where('expires_at', '<=', oldest.expires_at).execute();
}

/** What is kept of the JSON that metadata points to: always this shape, other members are dropped. */
export interface OffChainDocument {
  readonly name: string;
  readonly symbol: string;
  readonly description: string;
  readonly image: string;
  readonly attributes: readonly { readonly traitType: string; readonly value: string }[] | null;
  readonly sellerFeeBasisPoints: number;
  readonly properties: {
    readonly category: string | null;
    readonly creators: readonly { readonly address: string; readonly share: number }[] | null;
    readonly files: readonly { readonly uri: string; readonly type: string }[] | null;
  };
}

/** A document, or why there is none. */
export type OffChainAnswer =
  | { readonly document: OffChainDocument; readonly error: '' }
  | { readonly document: null; readonly error: 'TIMEOUT' | 'UNKNOWN' };

export const failed = (error: 'TIMEOUT' | 'UNKNOWN'): OffChainAnswer => ({ document: null, error });
