/**
 * Memory and store stay within the bounds that docs/reference/shadow.md states, while references lie, are slow, dead or endless, and every
 * answer differs in another member.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { tables } from '../../../plugins/shadow/tables.ts';
import { openStore } from '../../../src/store/index.ts';
import { startDaemonProcess } from '../../helpers/daemon.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';
import { until } from '../../helpers/until.ts';
import { startUpstream } from '../../helpers/upstream.ts';

const CALLS = 1_500;
const TOGETHER = 16;
const ANSWER_BYTES = 20_000;
const MAX_BODY_BYTES = 65_536;
const MAX_BYTES_IN_MEMORY = 500_000;
const MAX_WAITING = 32;
const KEEP = { differences: 60, perGroup: 2, groups: 40, bodyBytes: 2_000 };
const CHUNK = Buffer.alloc(65_536, 'x');
/** Far below what the references send, and far above what collecting garbage leaves. */
const MAX_GROWTH_BYTES = 160 * 2 ** 20;
const MAX_OF_METHODS = 500;

interface BadReference {
  readonly url: string;
  /** Bytes that were sent in endless bodies. */
  readonly poured: () => number;
  close(): Promise<void>;
}

/** Lies about another member each time; now and then it is slow, says nothing, breaks off, or never ends. */
async function startBadReference(): Promise<BadReference> {
  const random = createSfc32(7);
  let [asked, poured] = [0, 0];
  const lie = (id: unknown) => {
    asked += 1;
    const text = 'y'.repeat(random.below(2 * ANSWER_BYTES));
    return JSON.stringify({ jsonrpc: '2.0', id, result: { [`member${asked}`]: { deep: asked }, text } });
  };
  const pour = (response: ServerResponse) => {
    response.writeHead(200);
    const more = () => {
      do poured += CHUNK.length;
      while (!response.destroyed && response.write(CHUNK));
    };
    response.on('drain', more);
    response.on('error', () => undefined);
    more();
  };
  const server: Server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('error', () => undefined);
    request.on('end', () => {
      const { id } = JSON.parse(Buffer.concat(parts).toString()) as { id: unknown };
      const draw = random.float();
      if (draw < 0.7) response.end(lie(id));
      else if (draw < 0.8) setTimeout(() => response.end(lie(id)), 50);
      else if (draw < 0.85) request.socket.destroy();
      else if (draw < 0.98) pour(response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    poured: () => poured,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

for (const answers of ['here', 'reference'] as const)
  test(`memory and store are bounded, whatever the reference does; answers: ${answers}`, async (t) => {
    const upstream = await startUpstream();
    upstream.on('*', ({ method }) => ({ result: JSON.stringify({ method, text: 'z'.repeat(ANSWER_BYTES) }) }));
    const reference = await startBadReference();
    const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-shadow-'));
    const daemon = await startDaemonProcess({
      chain: { rpcUrl: upstream.url },
      dataDir,
      config: {
        plugins: ['access', 'proxy', 'shadow'],
        follow: { enabled: false },
        shadow: {
          share: 1,
          recheckMs: 0,
          answers,
          answerWithinMs: 300,
          maxBodyBytes: MAX_BODY_BYTES,
          maxBytesInMemory: MAX_BYTES_IN_MEMORY,
          maxWaiting: MAX_WAITING,
          keep: KEEP,
          budget: { requestsPerDay: 1_000_000, creditsPerDay: 1e9, bytesPerDay: 2 ** 50 },
          reference: { url: reference.url, apiKey: 'key-of-the-reference', timeoutMs: 300 },
        },
      },
    });
    let isOver = false;
    t.after(async () => {
      isOver = true;
      await daemon.kill();
      await reference.close();
      await upstream.stop();
      rmSync(dataDir, { recursive: true, force: true });
    });
    const metrics = async () => (await fetch(`${daemon.adminUrl}/metrics`)).text();
    const sumOf = (text: string, line: RegExp) =>
      text.split('\n').reduce((sum, one) => (line.test(one) ? sum + Number(one.split(' ').at(-1)) : sum), 0);
    const ask = async (method: string) => {
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: [] });
      const response = await fetch(`${daemon.apiUrl}/?api-key=${daemon.key}`, { method: 'POST', body });
      const text = await response.text();
      assert.equal(response.status, 200, text.slice(0, 200));
    };
    for (let at = 0; at < 200; at += 1) await ask('warm');
    const resident = /^process_resident_memory_bytes\b/;
    const residentBytes = async () => sumOf(await metrics(), resident);
    const atFirst = await residentBytes();
    assert.ok(atFirst > 0, 'the memory of the process is known');
    const most = { held: 0, waiting: 0, resident: 0 };
    let asked = 0;
    const worker = async () => {
      while (asked < CALLS) {
        asked += 1;
        await ask(`method${asked % (2 * MAX_OF_METHODS)}`);
      }
    };
    const watch = async () => {
      while (!isOver) {
        const text = await metrics();
        most.held = Math.max(most.held, sumOf(text, /^parhelion_shadow_held_bytes/));
        most.waiting = Math.max(most.waiting, sumOf(text, /^parhelion_shadow_waiting_requests/));
        most.resident = Math.max(most.resident, sumOf(text, resident));
        await sleep(20);
      }
    };
    const watching = watch().catch((error: unknown) => assert.ok(isOver, String(error)));
    await Promise.all(Array.from({ length: TOGETHER }, worker));
    await until(async () => sumOf(await metrics(), /^parhelion_shadow_held_bytes/) === 0, 'nothing is held');
    isOver = true;
    await watching;
    await fetch(`${daemon.adminUrl}/v0/admin/shadow`);
    const growth = Math.round((most.resident - atFirst) / 2 ** 20);
    t.diagnostic(`at most ${most.held} bytes held, ${most.waiting} waiting, ${growth} MB more memory`);
    t.diagnostic(`${Math.round(reference.poured() / 2 ** 20)} MB of endless bodies`);
    assert.ok(most.held > 0 && most.held <= MAX_BYTES_IN_MEMORY, `${most.held} bytes are held`);
    assert.ok(most.waiting <= MAX_WAITING, `${most.waiting} wait`);
    assert.ok(most.resident - atFirst <= MAX_GROWTH_BYTES, `${growth} MB more`);
    const text = await metrics();
    for (const kind of ['answer', 'broken', 'large'])
      assert.ok(sumOf(text, new RegExp(`reference_replies_total\\{kind="${kind}"`)) > 0, kind);
    await daemon.stop();

    const store = await openStore(
      { url: 'sqlite:', poolSize: 1, busyTimeoutMs: 5_000, statementTimeoutMs: 30_000 },
      dataDir,
    );
    t.after(() => store.close());
    const countOf = async (name: 'shadow_groups' | 'shadow_differences' | 'shadow_counts') => {
      const { total } = await tables(store.read)
        .selectFrom(name)
        .select(({ fn }) => fn.countAll<number>().as('total'))
        .executeTakeFirstOrThrow();
      return Number(total);
    };
    assert.equal(await countOf('shadow_groups'), KEEP.groups);
    assert.ok((await countOf('shadow_differences')) <= KEEP.differences);
    assert.ok((await countOf('shadow_counts')) <= MAX_OF_METHODS + 1);
    const rows = await tables(store.read).selectFrom('shadow_differences').selectAll().execute();
    assert.ok(rows.length > 0);
    for (const row of rows)
      for (const part of [row.ours, row.theirs, row.question]) assert.ok(Buffer.byteLength(part) <= KEEP.bodyBytes);
  });
