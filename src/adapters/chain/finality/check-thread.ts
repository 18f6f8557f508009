import { parentPort } from 'node:worker_threads';
import { messageOf } from '../../../lib/coded-error.ts';
import { CertificateChecker } from '../../../solana/finality/certificate.ts';
import type { CheckAnswer, CheckRequest } from './checker.ts';

/** Entry file of the thread that checks certificates: a check takes tens of milliseconds, which the follower has no time for. */

const port = parentPort!;
/** One checker per rank map, with its keys decoded. */
const checkers = new Map<number, CertificateChecker>();
/** The epoch that ends, the one that begins, and a map that was read again. */
const MAX_CHECKERS = 3;

port.on('message', ({ mapId, map, footer, shredVersion }: CheckRequest) => {
  const startedAt = performance.now();
  port.postMessage({ outcome: check(), tookMs: performance.now() - startedAt } satisfies CheckAnswer);

  function check(): CheckAnswer['outcome'] {
    try {
      if (map !== null) checkers.set(mapId, new CertificateChecker(map));
      for (const id of checkers.keys()) if (checkers.size > MAX_CHECKERS) checkers.delete(id);
      const checker = checkers.get(mapId);
      if (checker === undefined) return { error: 'the ranks were not sent' };
      return checker.check(footer, shredVersion) ?? { error: 'the footer has no certificate' };
    } catch (error) {
      return { error: messageOf(error) };
    }
  }
});
