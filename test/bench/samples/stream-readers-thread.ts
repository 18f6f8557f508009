/** Readers of gRPC streams in a thread of their own: they count bytes and decode nothing. */
import { connect } from 'node:http2';
import { parentPort, workerData } from 'node:worker_threads';

interface Task {
  readonly url: string;
  readonly readers: number;
  /** Of one connection; default 1. */
  readonly streams?: number;
  readonly request: Uint8Array;
  readonly key: string;
}

const { url, readers, streams = 1, request, key } = workerData as Task;
/** Shared with the measuring thread: bytes that arrived, in all. */
const port = parentPort!;
let bytes = 0;
const report = setInterval(() => port.postMessage(bytes), 5);
const sessions = Array.from({ length: readers / streams }, () => {
  const session = connect(url, { settings: { initialWindowSize: 8_388_608 } });
  session.once('connect', () => session.setLocalWindowSize(16_777_216));
  for (let opened = 0; opened < streams; opened += 1) {
    const stream = session.request({
      ':method': 'POST',
      ':path': '/geyser.Geyser/Subscribe',
      'content-type': 'application/grpc',
      te: 'trailers',
      'x-token': key,
    });
    stream.write(Buffer.from(request));
    stream.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
    });
  }
  return session;
});
port.once('message', () => {
  clearInterval(report);
  for (const session of sessions) session.destroy();
  port.close();
});
