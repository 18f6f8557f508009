/** Messages of the block stream are compressed with zstd, in both directions, on every Node; a server without it is asked plainly. */
import assert from 'node:assert/strict';
import { createServer, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { describe, type TestContext, test } from 'node:test';
import { createYellowstoneStream, loadClientPackage } from '../../../src/adapters/chain/geyser/block-stream.ts';
import { zstdDecompress, zstdFrame } from '../../../src/lib/zstd.ts';
import type { ChainBlock } from '../../../src/ports/block.ts';
import { followConfig } from '../../helpers/follow-config.ts';
import { blockUpdate, geyserMissing, loadClient } from '../../helpers/geyser.ts';
import { blockJson, createBlock } from '../../helpers/list-model.ts';
import { createMemoryLog } from '../../helpers/memory-log.ts';
import { GEYSER_DIR } from '../../helpers/packages.ts';
import { createSfc32 } from '../../helpers/sfc32.ts';

interface Codec {
  encode(message: object): { finish(): Uint8Array };
  decode(bytes: Uint8Array): Readonly<Record<string, unknown>>;
  fromPartial(message: object): object;
}

const UNIMPLEMENTED = 12;

/** A server that speaks gRPC by hand, so that a test sees what is on the wire. */
async function startServer(
  t: TestContext,
  answer: (call: {
    readonly stream: ServerHttp2Stream;
    readonly headers: IncomingHttpHeaders;
    readonly frame: Buffer;
  }) => void,
): Promise<string> {
  const server = createServer();
  server.on('session', (session) => t.after(() => session.destroy()));
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined);
    stream.once('data', (frame: Buffer) => answer({ stream, headers, frame }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const frameOf = (message: Uint8Array, isCompressed: boolean): Buffer => {
  const head = Buffer.of(isCompressed ? 1 : 0, 0, 0, 0, 0);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
};

async function firstBlock(t: TestContext, url: string): Promise<ChainBlock> {
  const defaults = followConfig();
  const core = followConfig({ stream: { ...defaults.follow.stream, plugin: 'yellowstone', url } });
  const stream = createYellowstoneStream({
    core,
    log: createMemoryLog(),
    load: () => loadClientPackage(GEYSER_DIR),
  });
  await stream.start();
  const stop = new AbortController();
  t.after(() => stop.abort());
  return await new Promise((resolve, reject) => {
    const options = { fromSlot: null, commitment: 'confirmed', signal: stop.signal, onDead: () => undefined } as const;
    stream.open({ ...options, onBlock: resolve }).then((end) => reject(new Error(JSON.stringify(end))), reject);
  });
}

describe('compression of the block stream', { skip: geyserMissing() ?? false }, () => {
  const random = createSfc32(7);
  const parent = createBlock(random, null, { firstSlot: 100 });
  const block = createBlock(random, parent, {});
  const messages = () =>
    loadClient('@triton-one/yellowstone-grpc') as Record<'SubscribeRequest' | 'SubscribeUpdate', Codec>;
  const update = () => {
    const { SubscribeUpdate } = messages();
    const value = { filters: ['blocks'], ...blockUpdate(block.slot, blockJson(block)) };
    return SubscribeUpdate.encode(SubscribeUpdate.fromPartial(value)).finish();
  };
  const open = { ':status': 200, 'content-type': 'application/grpc' };

  test('requests and updates are compressed where the server can', async (t) => {
    let request: Readonly<Record<string, unknown>> | null = null;
    const url = await startServer(t, ({ stream, headers, frame }) => {
      assert.equal(headers['grpc-encoding'], 'zstd');
      assert.match(String(headers['grpc-accept-encoding']), /zstd/);
      assert.equal(frame[0], 1);
      request = messages().SubscribeRequest.decode(zstdDecompress(frame.subarray(5), 10_000));
      stream.respond({ ...open, 'grpc-encoding': 'zstd' });
      stream.write(frameOf(zstdFrame(update()), true));
    });
    const received = await firstBlock(t, url);
    assert.deepEqual([received.slot, received.blockhash], [block.slot, block.blockhash]);
    assert.equal(received.transactions.length, block.transactions.length);
    assert.ok(request !== null && Object.keys((request as Record<string, object>)['blocks']!).length === 1);
  });

  test('a server that refuses compressed requests is asked again at once, plainly', async (t) => {
    const encodings: unknown[] = [];
    const url = await startServer(t, ({ stream, headers }) => {
      encodings.push(headers['grpc-encoding']);
      if (headers['grpc-encoding'] !== undefined) {
        stream.respond({ ...open, 'grpc-status': String(UNIMPLEMENTED) }, { endStream: true });
        return;
      }
      stream.respond(open);
      stream.write(frameOf(update(), false));
    });
    const received = await firstBlock(t, url);
    assert.equal(received.blockhash, block.blockhash);
    assert.deepEqual(encodings, ['zstd', undefined]);
  });
});
