/** A daemon that answers from a store in which recorded transactions were indexed. */
import assert from 'node:assert/strict';
import { mkdtempSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { TSchema } from '@sinclair/typebox';
import { createValidator } from '../../src/http/validation.ts';
import type { ChainBlock, Store } from '../../src/plugin/plugin.ts';
import { openSqliteStore } from '../../src/store/sqlite.ts';
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

/** Indexes the blocks, lets `more` add rows, then starts a daemon on the same store, which follows nothing. It stops with the test. */
export async function startRecordedDaemon(
  t: TestContext,
  blocks: readonly ChainBlock[],
  options: Pick<IndexingOptions, 'programId' | 'trees'> & { readonly proverUrl?: string } = {},
  more: (store: Store) => Promise<void> = async () => undefined,
): Promise<RecordedDaemon> {
  const dataDir = mkdtempSync(join(tmpdir(), 'parhelion-recorded-'));
  const store = openSqliteStore({ path: join(dataDir, 'parhelion.db'), busyTimeoutMs: 5_000 });
  const bed = await createIndexingBed(store, { ...options, verifyChain: false });
  await bed.applyAll(blocks);
  await more(store);
  await store.close();
  const upstream = await startUpstream();
  const daemon = await startDaemon({
    dataDir,
    chain: { rpcUrl: upstream.url },
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
  const checkResult = await resultChecks(daemon.apiUrl);
  return {
    daemon,
    upstream,
    url,
    post,
    async call<T>(method: string, params: unknown) {
      const { body } = await post(method, params);
      if (body.error !== undefined) throw new Error(JSON.stringify(body.error));
      checkResult(method, body.result);
      return body.result as T;
    },
  };
}

/** Every result must be what the daemon's own document says. */
async function resultChecks(apiUrl: string): Promise<(method: string, result: unknown) => void> {
  const document = (await (await fetch(`${apiUrl}/openapi.json`)).json()) as {
    'x-rpc': Record<string, { readonly result: TSchema }>;
  };
  const checks = new Map(
    Object.entries(document['x-rpc']).map(([name, { result }]) => [name, createValidator().compile(result, name)]),
  );
  return (method, result) => assert.equal(checks.get(method)?.(result), null, `${method} is not as documented`);
}
