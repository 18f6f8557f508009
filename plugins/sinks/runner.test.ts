import { test } from 'node:test';
import type { SinkBatch, SinkKind, SinkPosition } from '../../src/ports/sink.ts';
import { emptyLedger, fill } from '../../test/helpers/archive.ts';
import { openSink, sinkStore, startSink } from '../../test/helpers/sinks.ts';
import { until } from '../../test/helpers/until.ts';
import { readStates } from './store.ts';

/** Keeps positions, and no rows. */
function memoryKind(): SinkKind & { isThere: boolean } {
  let position: SinkPosition | null = null;
  return {
    kind: 'memory',
    batch: { slots: 8, seconds: 0 },
    isThere: true,
    async open() {
      if (!this.isThere) throw new Error('nobody answers');
      return {
        positions: async () => (position === null ? [] : [position]),
        write: async (batch: SinkBatch) => {
          position = batch.position;
          return position;
        },
        close: async () => undefined,
      };
    },
  };
}

test('the lag of a sink grows while nobody reaches its target', async (t) => {
  const ledger = await emptyLedger(t);
  await fill(ledger, 11, 40);
  const [store, kind, sink] = [await sinkStore(t), memoryKind(), openSink('memory')];
  const first = startSink({ store, ledger, kind, sink });
  const known = async () => (await readStates(store.read, ['rows'])).get('rows')?.last;
  await until(async () => (await known()) === ledger.finalSlot, 'the sink has caught up, and said so');
  await first.stop();
  kind.isThere = false;
  await fill(ledger, ledger.newest() + 1, ledger.newest() + 20);
  const second = startSink({ store, ledger, kind, sink });
  t.after(second.stop);
  await until(async () => (await second.lag()) >= 20, 'the lag is known');
});
