import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { startSurfpoolProxy } from './surfpool-proxy.ts';

export interface Surfpool {
  /** Of the proxy that repairs what nobody could follow or wait for. */
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
  const proxy = await startSurfpoolProxy(await next());
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
