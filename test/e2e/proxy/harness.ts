import type { TestContext } from 'node:test';
import { startChain, type TestChain } from '../../helpers/chain.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';

export interface ChainBed {
  readonly chain: TestChain;
  readonly daemon: DaemonInProcess;
  readonly url: string;
  readonly socketUrl: string;
  /** Runs before the daemon stops: clients that reconnect would keep the process alive. */
  before(end: () => void): void;
}

/** A daemon in front of a real local chain. */
export async function startChainBed(t: TestContext, config: Readonly<Record<string, unknown>> = {}): Promise<ChainBed> {
  const chain = await startChain({ lightAssets: false });
  const daemon = await startDaemon({ chain, config: { follow: { enabled: false }, ...config } });
  const ends: (() => void)[] = [];
  t.after(async () => {
    for (const end of ends) end();
    await daemon.stop();
    await chain.stop();
  });
  const query = `/?api-key=${daemon.key}`;
  return {
    chain,
    daemon,
    url: daemon.apiUrl + query,
    socketUrl: daemon.apiUrl.replace('http', 'ws') + query,
    before: (end) => void ends.push(end),
  };
}
