/** A daemon that answers from a store in which recorded transactions were indexed. */
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { openSqliteStore } from '../../src/adapters/store/sqlite/index.ts';
import type { ChainBlock } from '../../src/kernel/plugin.ts';
import { createIndexingBed, type IndexingOptions } from './compression.ts';
import { type DaemonInProcess, startDaemon } from './daemon.ts';
import { startUpstream, type TestUpstream } from './upstream.ts';

export interface RecordedDaemon {
  readonly daemon: DaemonInProcess;
  /** The chain behind it, which says nothing by itself. */
  readonly upstream: TestUpstream;
  /** Address with the key in it. */
  readonly url: string;
  /** The result of a call. Rejects with the text of an error. */
  call<T = unknown>(method: string, params: unknown): Promise<T>;
  /** Status and body of a call, whatever it is. */
  post(method: string, params: unknown): Promise<{ readonly status: number; readonly body: RpcBody }>;
}

interface RpcBody {
  readonly id: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: { readonly details: string } };
}

/** Indexes the blocks, then starts a daemon on the same store, which follows nothing. It stops with the test. */
export async function startRecordedDaemon(
  t: TestContext,
  blocks: readonly ChainBlock[],
  options: Pick<IndexingOptions, 'programId' | 'trees'> = {},
): Promise<RecordedDaemon> {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-recorded-'));
  const store = openSqliteStore({ path: join(dataDir, 'parhelion.db'), busyTimeoutMs: 5_000 });
  const bed = await createIndexingBed(store, { ...options, verifyChain: false });
  await bed.applyAll(blocks);
  await store.close();
  const upstream = await startUpstream();
  const daemon = await startDaemon({
    ...{ dataDir, chain: { rpcUrl: upstream.url } },
    config: { follow: { enabled: false }, compression: { ...options, verifyChain: false } },
  });
  t.after(async () => {
    await daemon.stop();
    await upstream.stop();
    await rm(dataDir, { recursive: true, force: true });
  });
  const url = `${daemon.apiUrl}/?api-key=${daemon.key}`;
  const post: RecordedDaemon['post'] = async (method, params) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 'test-account', method, params });
    const response = await fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body });
    return { status: response.status, body: (await response.json()) as RpcBody };
  };
  return {
    ...{ daemon, upstream, url, post },
    async call<T>(method: string, params: unknown) {
      const { body } = await post(method, params);
      if (body.error !== undefined) throw new Error(JSON.stringify(body.error));
      return body.result as T;
    },
  };
}
