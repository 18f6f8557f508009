import type { Socket } from 'node:net';
import type { buildConnector } from 'undici';
import { undici } from './undici.ts';

/** A request begins with its line, which undici writes as text; bodies are bytes or follow it. */
const REQUEST_LINE = /^[A-Z]+ \S+ HTTP\/1\.1\r\n/;
/** Informational answers, except the change of protocol, which nobody asked for. */
const INTERIM = /^HTTP\/1\.[01] 1(?!01)\d\d/;
const STATUS_LINE_BYTES = 12;
/** An informational answer ends within this many bytes, and there are at most so many; others are left to undici, which refuses them. */
const MAX_INTERIM_BYTES = 65_536;
const MAX_INTERIM = 100;
const EMPTY = Buffer.alloc(0);

/** What is used of the parser of undici. */
interface Parser {
  readonly paused: boolean;
  shouldKeepAlive: boolean;
}

/**
 * A connector for pools of undici whose sockets make up for two faults of undici 7.30. It closes the connection at an answer `100 Continue`
 * that was not asked for; RFC 9110 15.2 wants a client to skip it. And it throws from an event of the socket, which ends the process, when
 * an answer that lasts until the connection closes is paused at that moment; here such an answer fails instead.
 */
export function patientConnector(connect: buildConnector.connector): buildConnector.connector {
  return (options, done) =>
    connect(options, (...args) => {
      const [, socket] = args;
      if (socket !== null && socket !== undefined) makePatient(socket);
      done(...args);
    });
}

/** Errors of sockets that had answered before. */
const keptErrors = new WeakSet<object>();

/** Whether this is the end of a connection that had answered before: its server may have closed it without having seen the request. */
export function isEndOfKept(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  const { socket } = error as { readonly socket?: { readonly bytesRead?: number } | null };
  return keptErrors.has(error) || (socket?.bytesRead ?? 0) > 0;
}

function makePatient(socket: Socket): void {
  const interim = new InterimFilter();
  const { read, write, emit } = socket;
  const parser = () => (socket as unknown as Record<symbol, Parser | null | undefined>)[undici().kParser];

  socket.write = ((...args: Parameters<typeof write>) => {
    if (typeof args[0] === 'string' && REQUEST_LINE.test(args[0])) interim.begin();
    return write.apply(socket, args);
  }) as typeof write;

  socket.read = (size?: number): Buffer | null => {
    for (;;) {
      const chunk = read.call(socket, size) as Buffer | null;
      const passed = chunk === null ? null : interim.pass(chunk);
      if (chunk === null || passed !== null) return passed;
    }
  };

  socket.emit = ((event: string, ...args: unknown[]): boolean => {
    const current = parser();
    if (event === 'error' && socket.bytesRead > 0) keptErrors.add(args[0] as Error);
    // Otherwise undici takes it for the end of the answer, and meets its own pause.
    if (current?.paused === true && (event === 'end' || event === 'error' || event === 'close'))
      current.shouldKeepAlive = true;
    return Reflect.apply(emit, socket, [event, ...args]) as boolean;
  }) as typeof emit;
}

/** Removes informational answers from what a server sends before its answer. */
class InterimFilter {
  #isBefore = false;
  #count = 0;
  #kept: Buffer = EMPTY;

  /** A request is sent. */
  begin(): void {
    this.#isBefore = true;
    this.#count = 0;
  }

  /** The bytes without informational answers; null: more are needed. */
  pass(chunk: Buffer): Buffer | null {
    if (!this.#isBefore) return chunk;
    let bytes = this.#kept.length === 0 ? chunk : Buffer.concat([this.#kept, chunk]);
    this.#kept = EMPTY;
    for (; this.#count < MAX_INTERIM; this.#count += 1) {
      const line = bytes.toString('latin1', 0, STATUS_LINE_BYTES);
      if (bytes.length < STATUS_LINE_BYTES && 'HTTP/1.'.startsWith(line.slice(0, 7))) return this.#keep(bytes);
      if (!INTERIM.test(line)) break;
      const end = bytes.indexOf('\r\n\r\n');
      if (end < 0 && bytes.length < MAX_INTERIM_BYTES) return this.#keep(bytes);
      if (end < 0) break;
      bytes = bytes.subarray(end + 4);
    }
    this.#isBefore = false;
    return bytes;
  }

  #keep(bytes: Buffer): null {
    this.#kept = bytes;
    return null;
  }
}
