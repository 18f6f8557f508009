import { once } from 'node:events';
import type { TestContext } from 'node:test';
import WebSocket from 'ws';
import { type ProxyBed, until } from './rpc-client.ts';

export interface SocketClient {
  readonly socket: WebSocket;
  /** Messages as received. */
  readonly received: readonly string[];
  send(text: string): void;
  /** Sends a call and returns the raw answer with its id. */
  call(method: string, params?: unknown, id?: number): Promise<string>;
  /** Subscribes and returns the id. */
  subscribe(method: string, params?: unknown): Promise<number>;
  notifications(): readonly string[];
  /** Close code, once closed. */
  readonly closed: Promise<number>;
}

/** A raw websocket client of the daemon. */
export async function connect(t: TestContext, { daemon }: Pick<ProxyBed, 'daemon'>): Promise<SocketClient> {
  const socket = new WebSocket(`${daemon.apiUrl.replace('http', 'ws')}/?api-key=${daemon.key}`);
  const received: string[] = [];
  let nextId = 1;
  socket.on('message', (data) => received.push(String(data)));
  socket.on('error', () => {});
  const closed = new Promise<number>((resolve) => socket.on('close', (code) => resolve(code)));
  t.after(() => socket.terminate());
  await once(socket, 'open');
  const client: SocketClient = {
    socket,
    received,
    closed,
    send: (text) => socket.send(text),
    async call(method, params = [], id = nextId++) {
      const has = (text: string) => (JSON.parse(text) as { id?: unknown }).id === id;
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }));
      await until(`answer to ${method}`, () => received.some(has));
      return received.find(has)!;
    },
    async subscribe(method, params = []) {
      const answer = await client.call(method, params);
      const { result } = JSON.parse(answer) as { result?: number };
      if (typeof result !== 'number') throw new Error(answer);
      return result;
    },
    notifications: () => received.filter((text) => text.includes('Notification"')),
  };
  return client;
}
