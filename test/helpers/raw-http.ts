import { connect, type Socket } from 'node:net';

export interface RawAnswer {
  readonly status: number;
  /** Names in lower case; a repeated header keeps its last value. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

export interface RawConnection {
  readonly socket: Socket;
  send(bytes: string | Buffer): void;
  /** The next complete answer; rejects when the connection ends before it. `noBody` for HEAD. */
  answer(options?: { readonly noBody?: boolean }): Promise<RawAnswer>;
  /** Resolves when the other side closed the connection. */
  closed: Promise<void>;
  destroy(): void;
}

/** A connection on which a test writes HTTP byte by byte. */
export function rawConnect(port: number): RawConnection {
  const socket = connect({ host: '127.0.0.1', port });
  let buffer = Buffer.alloc(0);
  let ended = false;
  let wake = () => {};
  socket.on('data', (chunk) => {
    buffer = Buffer.concat([buffer, chunk]);
    wake();
  });
  socket.on('error', () => {});
  const closed = new Promise<void>((resolve) => {
    socket.on('close', () => {
      ended = true;
      wake();
      resolve();
    });
  });
  const more = () =>
    new Promise<void>((resolve, reject) => {
      if (ended) reject(new Error(`closed after ${buffer.length} bytes: ${buffer.toString('latin1').slice(0, 200)}`));
      wake = resolve;
    });

  const answer = async ({ noBody = false } = {}): Promise<RawAnswer> => {
    for (;;) {
      const parsed = parseAnswer(buffer, noBody, ended);
      if (parsed !== null && parsed.answer.status === 100) buffer = buffer.subarray(parsed.length);
      else if (parsed !== null) {
        buffer = buffer.subarray(parsed.length);
        return parsed.answer;
      } else await more();
    }
  };
  return { socket, send: (bytes) => void socket.write(bytes), answer, closed, destroy: () => socket.destroy() };
}

/** One request on a connection of its own. */
export async function rawRequest(port: number, bytes: string | Buffer, noBody = false): Promise<RawAnswer> {
  const connection = rawConnect(port);
  try {
    connection.send(bytes);
    return await connection.answer({ noBody });
  } finally {
    connection.destroy();
  }
}

function parseAnswer(bytes: Buffer, noBody: boolean, ended: boolean) {
  const headEnd = bytes.indexOf('\r\n\r\n');
  if (headEnd < 0) return null;
  const [statusLine = '', ...lines] = bytes.toString('latin1', 0, headEnd).split('\r\n');
  const status = Number(statusLine.split(' ')[1]);
  const headers = Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  );
  const start = headEnd + 4;
  const done = (body: string, end: number) => ({ answer: { status, headers, body }, length: end });
  if (noBody || status === 204 || status === 100) return done('', start);
  if (headers['transfer-encoding'] === 'chunked') return parseChunks(bytes, start, done);
  const length = Number(headers['content-length'] ?? (ended ? bytes.length - start : Number.NaN));
  if (!(bytes.length >= start + length)) return null;
  return done(bytes.toString('utf8', start, start + length), start + length);
}

function parseChunks<T>(bytes: Buffer, start: number, done: (body: string, end: number) => T): T | null {
  const parts: Buffer[] = [];
  for (let at = start; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd < 0) return null;
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16);
    const end = lineEnd + 2 + size;
    if (bytes.length < end + 2) return null;
    if (size === 0) return done(Buffer.concat(parts).toString('utf8'), end + 2);
    parts.push(bytes.subarray(lineEnd + 2, end));
    at = end + 2;
  }
}
