import { Connection, Keypair } from '@solana/web3.js';
import type { Backend, Quirk, RunningBackend } from '../../helpers/backends.ts';
import { type DaemonInProcess, startDaemon } from '../../helpers/daemon.ts';

/** A daemon that follows and fronts one backend. */
export interface PeerBed {
  readonly chain: RunningBackend;
  readonly daemon: DaemonInProcess;
  /** The JSON-RPC root with the key. */
  readonly url: string;
  readonly socketUrl: string;
  /** Whether the node behind the daemon has this quirk. */
  has(quirk: Quirk): boolean;
  /** An unmodified client at `confirmed`, ended with the bed. */
  connect(): Connection;
  /** A new wallet with so many lamports. */
  funded(lamports?: number): Promise<Keypair>;
  stop(): Promise<void>;
}

export async function startPeerBed(backend: Backend): Promise<PeerBed> {
  const chain = await backend.start();
  const daemon = await startDaemon({
    chain,
    config: { webhooks: { allowCidrs: ['127.0.0.0/8'], allowHttp: true } },
  });
  const connections: Connection[] = [];
  const calls = new Set<Promise<unknown>>();
  /** A confirmation leaves calls behind that nobody waits for: they must be over before the daemon goes. */
  const counted: typeof fetch = (input, init) => {
    const call = fetch(input, init);
    calls.add(call);
    call.then(
      () => calls.delete(call),
      () => calls.delete(call),
    );
    return call;
  };
  const query = `/?api-key=${daemon.key}`;
  const [url, socketUrl] = [daemon.apiUrl + query, daemon.apiUrl.replace('http', 'ws') + query];
  return {
    chain,
    daemon,
    url,
    socketUrl,
    has: (quirk) => backend.quirks.has(quirk),
    connect() {
      const connection = new Connection(url, { commitment: 'confirmed', wsEndpoint: socketUrl, fetch: counted });
      connections.push(connection);
      return connection;
    },
    async funded(lamports = 10_000_000_000) {
      const pair = Keypair.generate();
      await chain.fund(pair.publicKey.toBase58(), lamports);
      return pair;
    },
    async stop() {
      for (const connection of connections) hangUp(connection);
      while (calls.size > 0) await Promise.allSettled(calls);
      await daemon.stop();
      await chain.stop();
    },
  };
}

/** The client has no way to end its socket, and would try to connect again for ever. */
function hangUp(connection: Connection): void {
  const socket = (connection as unknown as { _rpcWebSocket: { reconnect: boolean; close(code: number): void } })
    ._rpcWebSocket;
  socket.reconnect = false;
  socket.close(1000);
}
