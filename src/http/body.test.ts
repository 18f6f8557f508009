import assert from 'node:assert/strict';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { describe, test } from 'node:test';
import { createManualClock } from '../../test/helpers/manual-clock.ts';
import { createMetricsRegistry } from '../runtime/metrics.ts';
import { createDeadlines } from '../runtime/waiting.ts';
import { BodyAborted, readBody } from './body.ts';
import { createInFlight, type Exchange } from './exchange.ts';
import { peekCall } from './rest.ts';

const WAIT = { timeout: 10_000 };

/** The parts of a request that are read here. */
const body = () => Object.assign(new PassThrough(), { headers: {}, complete: false }) as PassThrough & IncomingMessage;

describe('a body', () => {
  test('whose client disconnects ends, whenever that happens', WAIT, async () => {
    const broken = body();
    const reading = readBody(broken, 100, () => undefined);
    broken.write('{');
    broken.destroy();
    await assert.rejects(reading, BodyAborted);
    await assert.rejects(
      readBody(broken, 100, () => undefined),
      BodyAborted,
    );
  });
});

describe('finding the id of a refused call', () => {
  const peeking = () => {
    const request = body();
    const clock = createManualClock();
    const exchange = { request, response: {} as ServerResponse, expectsContinue: false } as unknown as Exchange;
    const inFlight = { setBusy: () => undefined };
    return { request, clock, peeked: peekCall({ deadlines: createDeadlines(clock), inFlight }, exchange) };
  };
  test('reads a few bytes and leaves the rest unread', WAIT, async () => {
    const { request, peeked } = peeking();
    for (let i = 0; i < 3; i += 1) request.write(Buffer.alloc(10_000, 0x20));
    const { bytes, complete, head } = await peeked;
    assert.deepEqual([bytes.length, complete, head.length], [20_000, false, 16_384]);
    assert.ok(request.isPaused());
  });
  test('has a time limit', WAIT, async () => {
    const { request, clock, peeked } = peeking();
    request.write('{"id":7,');
    await clock.advance(5_000);
    const { bytes, complete } = await peeked;
    assert.deepEqual([bytes.toString(), complete], ['{"id":7,', false]);
  });
  test('ends with the client', WAIT, async () => {
    const { request, peeked } = peeking();
    request.destroy();
    await assert.rejects(peeked, BodyAborted);
  });
});

describe('requests in flight', () => {
  const make = () => {
    const metrics = createMetricsRegistry().scope('x');
    return createInFlight(metrics.gauge('a', 'a'), () => 1_000, metrics.counter('b_total', 'b'));
  };
  const exchange = () => {
    const made = {
      busy: false,
      bodyBytes: 0,
      holdBody: (bytes: number) => {
        made.bodyBytes += bytes;
      },
      giveBack: () => {
        made.bodyBytes = 0;
      },
    };
    return made as unknown as Exchange;
  };

  test('a finished request no longer counts, whatever bytes still arrive for it', () => {
    const inFlight = make();
    const gone = exchange();
    inFlight.enter(gone);
    inFlight.takeBytes(gone, 400);
    inFlight.leave(gone);
    inFlight.setBusy(gone, true);
    inFlight.takeBytes(gone, 400);
    assert.deepEqual([inFlight.busy, inFlight.bodyBytes, inFlight.count], [0, 0, 0]);
  });
  test('waiting for the last of them ends', WAIT, async () => {
    const inFlight = make();
    inFlight.enter(exchange());
    const deadline = new AbortController();
    const idle = inFlight.idle(deadline.signal);
    deadline.abort();
    await idle;
    assert.equal(inFlight.count, 1);
  });
});
