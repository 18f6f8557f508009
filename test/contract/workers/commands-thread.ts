/** A thread whose commands answer, fail, hang and crash. */
import { parentPort } from 'node:worker_threads';
import { createLog } from '../../../src/adapters/log.ts';
import { createLogRelay, serveCommands } from '../../../src/adapters/workers/wire.ts';
import { CodedError } from '../../../src/lib/coded-error.ts';

if (parentPort === null) throw new Error('this module is the entry of a thread');
const relay = createLogRelay(parentPort);
const log = createLog({ level: 'info', format: 'json', role: 'indexer', destination: relay });
let fail: (error: unknown) => void = () => undefined;
const fatal = new Promise<unknown>((resolve) => {
  fail = resolve;
});

serveCommands(
  parentPort,
  {
    async start() {
      throw new CodedError('STORE_WRONG_CHAIN', 'another chain', {
        exitCode: 78,
        facts: { known: 'x' },
        retryable: true,
      });
    },
    async ping() {},
    async listen() {},
    async checks() {
      return [{ name: 'a', ok: true, detail: 'ä' }];
    },
    async metrics() {
      for (;;);
    },
    async takeConfig(next) {
      if (Object.keys(next.core).length === 0) throw new TypeError('a bug');
      for (let n = 0; n < 500; n++) log.info({ n, pad: 'x'.repeat(200) }, 'line');
      log.info({ next }, 'taken');
    },
    async drain() {
      fail(new CodedError('STORE_FULL', 'the disk is full', { exitCode: 75 }));
    },
    stop: () =>
      new Promise(() => {
        setImmediate(() => {
          throw new Error('nobody catches this');
        });
      }),
  },
  fatal,
  relay,
);
