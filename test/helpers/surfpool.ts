import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { startSurfpoolProxy } from './surfpool-proxy.ts';

export interface Surfpool {
  /** Address of the proxy, which repairs what nobody could follow or wait for. */
  readonly rpcUrl: string;
  readonly wsUrl: string;
  fund(address: string, lamports: number): Promise<void>;
  stop(): Promise<void>;
}

/** Why the node cannot run here, or null. With REQUIRE_SURFPOOL=1 a reason is an error. */
export function surfpoolMissing(): string | null {
  try {
    createRequire(fileURLToPath(new URL('./surfpool/package.json', import.meta.url))).resolve(
      '@solana/surfpool-linux-x64-gnu',
    );
    return null;
  } catch {
    const reason = '@solana/surfpool-linux-x64-gnu is not installed: npm --prefix test/helpers/surfpool ci';
    if (process.env['REQUIRE_SURFPOOL'] === '1') throw new Error(reason);
    return reason;
  }
}

/** Starts the third-party node with one block each `slotMs` on a loopback port. */
export async function startSurfpool(slotMs: number): Promise<Surfpool> {
  const child = spawn(
    process.execPath,
    [fileURLToPath(new URL('./surfpool/child.mjs', import.meta.url)), String(slotMs)],
    {
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  );
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => JSON.parse((await lines.next()).value as string) as { rpcUrl: string; wsUrl: string };
  const node = await next();
  await firstBlock(node.rpcUrl);
  const proxy = await startSurfpoolProxy(node);
  return {
    rpcUrl: proxy.rpcUrl,
    wsUrl: proxy.wsUrl,
    async fund(address, lamports) {
      child.stdin.write(`fund ${address} ${lamports}\n`);
      await next();
    },
    async stop() {
      await proxy.close();
      const gone = once(child, 'exit');
      child.stdin.end();
      await gone;
    },
  };
}

/**
 * Until its first block, the node names a confirmed slot that it never has a block of (`getBlock`: -32602, "before the first local
 * slot"): who starts to follow there waits for ever.
 */
async function firstBlock(url: string): Promise<void> {
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 1,
    method: 'getBlocks',
    params: [0, null, { commitment: 'confirmed' }],
  });
  const headers = { 'content-type': 'application/json' };
  for (let tries = 0; tries < 300; tries += 1) {
    const { result } = (await (await fetch(url, { method: 'POST', headers, body })).json()) as { result?: number[] };
    if (result !== undefined && result.length > 0) return;
    await sleep(50);
  }
  throw new Error('surfpool made no block in 15 s');
}
