import type { Worker } from 'node:worker_threads';
import { messageOf } from '../../../lib/coded-error.ts';
import { startThread } from '../../../runtime/start-thread.ts';
import type { CertificateRefusal, VerifiedBlock } from '../../../solana/finality/certificate.ts';
import type { BlockFooter } from '../../../solana/finality/footer.ts';
import type { RankMap } from '../../../solana/finality/rank-map.ts';

export interface CheckRequest {
  readonly mapId: number;
  /** Null: the thread has it. */
  readonly map: RankMap | null;
  readonly footer: BlockFooter;
  readonly shredVersion: number;
}

export interface CheckAnswer {
  readonly outcome: VerifiedBlock | CertificateRefusal | { readonly error: string };
  readonly tookMs: number;
}

/** A map with a number of its own: another map of the same epoch has another one. */
export interface NumberedMap {
  readonly id: number;
  readonly map: RankMap;
}

/** Checks certificates in a thread of its own, one at a time; the thread starts with the first one. */
export interface Checker {
  /** Rejects when the thread has ended; the next check starts another one. */
  check(map: NumberedMap, footer: BlockFooter, shredVersion: number): Promise<CheckAnswer>;
  close(): Promise<void>;
}

/** Equals `MAX_CHECKERS` of the thread. */
const MAX_SENT_MAPS = 3;

export function createChecker(): Checker {
  const entry = new URL(import.meta.url.endsWith('.ts') ? './check-thread.ts' : './check-thread.js', import.meta.url);
  let worker: Worker | null = null;
  let sent: number[] = [];
  let waiting: { resolve(answer: CheckAnswer): void; reject(error: unknown): void } | null = null;

  function start(): Worker {
    const made = startThread(entry, null);
    const ended = (reason: string) => {
      if (worker !== made) return;
      worker = null;
      waiting?.reject(new Error(reason));
      waiting = null;
    };
    made.on('message', (answer: CheckAnswer) => {
      const asked = waiting;
      waiting = null;
      made.unref();
      asked?.resolve(answer);
    });
    made.on('error', (error) => ended(messageOf(error)));
    made.on('exit', (code) => ended(`exit code ${code}`));
    sent = [];
    return made;
  }

  return {
    check: ({ id, map }, footer, shredVersion) =>
      new Promise((resolve, reject) => {
        worker ??= start();
        const isKnown = sent.includes(id);
        if (!isKnown) sent = [...sent, id].slice(-MAX_SENT_MAPS);
        waiting = { resolve, reject };
        worker.ref();
        worker.postMessage({ mapId: id, map: isKnown ? null : map, footer, shredVersion } satisfies CheckRequest);
      }),
    async close() {
      const ended = worker;
      worker = null;
      waiting?.reject(new Error('closed'));
      waiting = null;
      await ended?.terminate();
    },
  };
}
