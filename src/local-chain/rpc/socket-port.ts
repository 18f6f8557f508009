import { createServer, type IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { messageOf } from '../../lib/coded-error.ts';
import type { LocalChainOptions } from '../options.ts';
import { end } from './server.ts';

/**
 * A second door for WebSockets at port + 1 where the port is a fixed one: web3.js looks there when nobody names an address.
 * A taken port is reported and otherwise harmless: `port` is null then.
 */
export async function startSocketPort(
  port: number,
  options: LocalChainOptions,
  upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer) => void,
): Promise<{ readonly port: number | null; stop(): Promise<void> }> {
  const none = { port: null, stop: async () => undefined };
  if ((options.port ?? 0) === 0) return none;
  const server = createServer((_request, response) => end(response, 426, 'WebSocket only'));
  server.on('upgrade', upgrade);
  const problem = await new Promise<unknown>((resolve) => {
    server.once('error', resolve);
    server.listen(port + 1, '127.0.0.1', () => resolve(null));
  });
  if (problem !== null) {
    options.warn?.(`local chain: no WebSocket port at ${port + 1} (${messageOf(problem)}); use port ${port}`);
    return none;
  }
  return {
    port: port + 1,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
