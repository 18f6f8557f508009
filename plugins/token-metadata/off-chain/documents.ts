import { LRUCache } from 'lru-cache';
import type { Clock } from '../../../src/ports/clock.ts';
import { createSemaphore } from '../../../src/runtime/semaphore.ts';
import type { OffChainConfig } from '../config.ts';
import { type DocumentStore, failed, type OffChainAnswer } from '../store/document-store.ts';
import { type Gateways, locate } from './locate.ts';

/** The documents that metadata points to, by the uri on the chain. */
export interface Documents {
  /** An entry for each uri; what is not there after `waitMs` is TIMEOUT, and goes on for whoever asks next. `fresh`: read again. */
  get(uris: readonly string[], options: DocumentOptions): Promise<ReadonlyMap<string, OffChainAnswer>>;
  /** What has been read before; nothing is fetched. */
  known(uris: readonly string[]): Promise<ReadonlyMap<string, OffChainAnswer>>;
  /** Fetches what is not known, without anybody who waits. */
  later(uris: readonly string[]): void;
  /** Another number than before whenever one more is known. */
  revision(): number;
  /** Documents that wait to be fetched. */
  readonly waiting: () => number;
}

interface DocumentOptions {
  readonly waitMs: number;
  readonly fresh: boolean;
}

interface DocumentsParts {
  readonly fetch: (uri: string) => Promise<OffChainAnswer>;
  readonly store: DocumentStore;
  readonly clock: Clock;
  readonly config: OffChainConfig;
  readonly cacheBytes: number;
  /** Told how each fetch ended. */
  readonly onFetched?: (error: OffChainAnswer['error']) => void;
}

const ENTRY_BYTES = 300;

export function createDocuments(parts: DocumentsParts): Documents {
  const { clock, config, store } = parts;
  const memory = new LRUCache<string, OffChainAnswer>({
    maxSize: parts.cacheBytes,
    sizeCalculation: (answer) => ENTRY_BYTES + (answer.document === null ? 0 : JSON.stringify(answer.document).length),
    perf: { now: () => clock.now() },
    ttlResolution: 0,
  });
  const semaphore = createSemaphore({
    concurrency: config.concurrency,
    perGroup: config.concurrencyPerHost,
    maxWaiting: config.maxWaiting,
  });
  const running = new Map<string, Promise<OffChainAnswer>>();
  let revision = 0;

  function keep(uri: string, answer: OffChainAnswer, untilMs: number): void {
    const ttl = untilMs - clock.now();
    if (ttl > 0) memory.set(uri, answer, { ttl });
    revision += 1;
  }

  /** Shares what is under way for the same uri. */
  function fetch(uri: string): Promise<OffChainAnswer> {
    const shared = running.get(uri);
    if (shared !== undefined) return shared;
    let resolve: (answer: OffChainAnswer) => void = () => {};
    const promise = new Promise<OffChainAnswer>((give) => {
      resolve = give;
    });
    running.set(uri, promise);
    const work = async () => {
      const answer = await parts.fetch(uri).catch(() => failed('UNKNOWN'));
      running.delete(uri);
      parts.onFetched?.(answer.error);
      const untilMs = clock.now() + (answer.document === null ? config.negativeTtlMs : config.ttlMs);
      keep(uri, answer, untilMs);
      store.save(uri, answer, untilMs);
      resolve(answer);
    };
    semaphore.run(work, { group: hostOf(uri, config) }).catch(() => {
      running.delete(uri);
      resolve(failed('UNKNOWN'));
    });
    return promise;
  }

  async function known(uris: readonly string[]): Promise<Map<string, OffChainAnswer>> {
    const found = new Map<string, OffChainAnswer>();
    const missing: string[] = [];
    for (const uri of new Set(uris)) {
      const answer = memory.get(uri);
      if (answer === undefined) missing.push(uri);
      else found.set(uri, answer);
    }
    if (missing.length === 0) return found;
    for (const [uri, { answer, untilMs }] of await store.load(missing)) {
      keep(uri, answer, untilMs);
      found.set(uri, answer);
    }
    return found;
  }

  return {
    async get(uris, { waitMs, fresh }) {
      const found = fresh ? new Map<string, OffChainAnswer>() : await known(uris);
      const missing = [...new Set(uris)].filter((uri) => !found.has(uri));
      if (missing.length === 0) return found;
      await new Promise<void>((resolve) => {
        const cancel = clock.timeout(waitMs, resolve);
        const all = missing.map(async (uri) => void found.set(uri, await fetch(uri)));
        void Promise.all(all).then(() => {
          cancel();
          resolve();
        });
      });
      // A copy: what is late must not change an answer that was given.
      return new Map([...new Set(uris)].map((uri) => [uri, found.get(uri) ?? failed('TIMEOUT')]));
    },
    known,
    later(uris) {
      for (const uri of uris) if (uri !== '') void fetch(uri);
    },
    revision: () => revision,
    waiting: semaphore.waiting,
  };
}

/** The host that is asked first for a uri; an empty text where none is. */
function hostOf(uri: string, gateways: Gateways): string {
  const location = locate(uri, gateways);
  const url =
    location === null || location.kind === 'inline' ? '' : 'url' in location ? location.url : (location.urls[0] ?? '');
  return URL.canParse(url) ? new URL(url).host : '';
}
