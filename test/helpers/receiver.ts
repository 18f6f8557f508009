import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { until } from './until.ts';

/** What the receiver does with one request. */
export type Step =
  | {
      readonly kind: 'answer';
      readonly status: number;
      readonly headers?: Record<string, string>;
      readonly body?: string;
      readonly delayMs?: number;
    }
  /** Takes the request and never says a word. */
  | { readonly kind: 'silent' }
  /** Drops the connection before or in the middle of the headers, or after them in the middle of the body. */
  | { readonly kind: 'reset'; readonly at: 'start' | 'headers' | 'body' }
  /** Sends status and headers, then bytes without end. */
  | { readonly kind: 'endless'; readonly status: number; readonly everyMs: number }
  /** Answers before the body of the request was read. */
  | { readonly kind: 'early'; readonly status: number };

export interface Received {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface Receiver {
  readonly url: string;
  readonly port: number;
  /** Every request whose body arrived, in order. */
  readonly received: Received[];
  /** Connections that were opened so far. */
  connections(): number;
  /** The next requests follow these steps, in order; afterwards `fallback`. */
  script(...steps: Step[]): void;
  setFallback(step: Step): void;
  /** What requests of one path get, while nothing is scripted. */
  route(path: string, step: Step): void;
  /** Resolves when `count` requests have arrived in all. */
  waitFor(count: number): Promise<readonly Received[]>;
  close(): Promise<void>;
}

export const answer = (status: number, headers: Record<string, string> = {}, body = ''): Step => ({
  kind: 'answer',
  status,
  headers,
  body,
});

/** A receiver of webhooks on loopback that behaves as its script says. */
export async function startReceiver(options: { host?: string } = {}): Promise<Receiver> {
  const host = options.host ?? '127.0.0.1';
  const steps: Step[] = [];
  const received: Received[] = [];
  const routes = new Map<string, Step>();
  let fallback: Step = answer(200);
  let connections = 0;

  const record = (request: IncomingMessage, body: Buffer): void => {
    received.push({ method: request.method ?? '', url: request.url ?? '', headers: request.headers, body });
  };
  const server = createServer((request, response) => {
    const step = steps.shift() ?? routes.get(request.url ?? '') ?? fallback;
    if (step.kind === 'early') {
      response.writeHead(step.status, { connection: 'close' }).end();
      record(request, Buffer.alloc(0));
      return;
    }
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      record(request, Buffer.concat(parts));
      play(step, request, response);
    });
    request.on('error', () => {});
    response.on('error', () => {});
  });
  server.on('connection', () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    received,
    connections: () => connections,
    script: (...next) => {
      steps.push(...next);
    },
    route: (path, step) => {
      routes.set(path, step);
    },
    setFallback: (step) => {
      fallback = step;
    },
    waitFor: (count) => until(() => received.length >= count && received, `${count} requests at the receiver`),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function play(step: Step, request: IncomingMessage, response: ServerResponse): void {
  const { socket } = request;
  if (step.kind === 'answer') {
    const send = () => response.writeHead(step.status, step.headers ?? {}).end(step.body ?? '');
    if (step.delayMs === undefined) send();
    else setTimeout(send, step.delayMs);
  } else if (step.kind === 'reset') {
    if (step.at === 'headers') socket.write('HTTP/1.1 200 OK\r\nContent-Ty', () => socket.resetAndDestroy());
    else if (step.at === 'body')
      socket.write('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf', () =>
        setTimeout(() => socket.resetAndDestroy(), 20),
      );
    else socket.resetAndDestroy();
  } else if (step.kind === 'endless') {
    response.writeHead(step.status);
    const timer = setInterval(() => response.write('x'.repeat(10)), step.everyMs);
    response.on('close', () => clearInterval(timer));
  }
}
