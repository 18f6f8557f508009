import assert from 'node:assert/strict';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { SINK_TABLES } from '../../../plugins/sinks/rows/tables.ts';
import { rowOf } from '../../../plugins/sinks/targets/ndjson.ts';
import { stdoutKind } from '../../../plugins/sinks/targets/stdout.ts';
import type { SinkKind, SinkRow, SinkTarget } from '../../../src/ports/sink.ts';
import { emptyLedger, fill } from '../../helpers/archive.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { assertRows, openSink, sinkStore, startSink } from '../../helpers/sinks.ts';
import { until } from '../../helpers/until.ts';

/** The program that reads: rows of a batch count with its line of position; a line `begin` drops what was not ended. */
class Reader {
  readonly rows = new Map<string, SinkRow[]>(SINK_TABLES.map(({ name }) => [name, []]));
  position: string | null = null;
  #begun: (readonly [string, SinkRow])[] = [];

  take(text: string): void {
    for (const line of text.split('\n').filter((one) => one !== '')) {
      const { table } = JSON.parse(line) as { readonly table: string };
      if (table === 'begin') this.#begun = [];
      else if (table === 'position') {
        for (const [name, row] of this.#begun) this.rows.get(name)!.push(row);
        [this.#begun, this.position] = [[], line];
      } else this.#begun.push([table, rowOf(SINK_TABLES.find(({ name }) => name === table)!, line)]);
    }
  }

  target(): SinkTarget {
    const rows = this.rows;
    return {
      positions: () => Promise.reject(new Error('not asked')),
      write: () => Promise.reject(new Error('not asked')),
      read: async (table) => rows.get(table)!,
      close: async () => undefined,
    };
  }
}

/** A kind that gives up in the middle of a batch at random, as when the daemon is killed. */
function breaking(kind: SinkKind, file: string, seed: number): SinkKind {
  const random = createSfc32(seed);
  return {
    ...kind,
    async open(sink) {
      const target = await kind.open(sink);
      return {
        ...target,
        async write(batch) {
          if (random.below(3) > 0) return await target.write(batch);
          const [table] = sink.tables;
          const row = batch.rows.get(table!.name)?.[0];
          writeFileSync(file, `{"table":"begin","part":"live","from":${batch.first}}\n`, { flag: 'a' });
          if (row !== undefined)
            writeFileSync(file, `{"table":"blocks","slot":${row[0]},"blockhash":"of a batch that broke off"}\n`, {
              flag: 'a',
            });
          throw new Error('broken off');
        },
      };
    },
  };
}

async function output(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-sink-'));
  const file = join(folder, 'output');
  const descriptor = openSync(file, 'a');
  t.after(() => {
    closeSync(descriptor);
    rmSync(folder, { recursive: true, force: true });
  });
  return { file, descriptor, kept: join(folder, 'position') };
}

test('stdout: a reader that keeps the lines of position has each row once, over batches that broke off and a new process', async (t) => {
  const ledger = await emptyLedger(t);
  await fill(ledger, 11, 160, { hasTransfers: true });
  const [{ file, descriptor, kept }, store] = [await output(t), await sinkStore(t)];
  const sink = openSink(kept);
  const last = () => Number(/"last":(\d+)[^\n]*\n$/.exec(readFileSync(file, 'utf8'))?.[1] ?? -1);
  const reader = new Reader();
  const settings = { batchSlots: 7 };
  const first = startSink({ store, ledger, kind: breaking(stdoutKind(descriptor), file, 3), sink, settings });
  await until(() => last() >= 80, 'half of it is written');
  await first.stop();
  // The reader died behind some batch, and has kept the line of position that ends it.
  const lines = readFileSync(file, 'utf8').split('\n');
  const ends = lines.flatMap((line, at) => (line.startsWith('{"table":"position"') ? [at] : []));
  const cut = ends[Math.floor(ends.length / 2)]!;
  reader.take(lines.slice(0, cut + 1).join('\n'));
  writeFileSync(kept, `${reader.position}\n`);
  const size = readFileSync(file).length;
  const second = startSink({ store, ledger, kind: breaking(stdoutKind(descriptor), file, 4), sink, settings });
  await until(() => last() === ledger.finalSlot && readFileSync(file).length > size, 'all of it is written');
  await second.stop();
  reader.take(readFileSync(file).subarray(size).toString());
  await assertRows(reader.target(), ledger, 11, ledger.finalSlot);
  assert.equal((JSON.parse(reader.position!) as { last: number }).last, ledger.finalSlot);
});
