import { Readable } from 'node:stream';
import { Type } from '@sinclair/typebox';
import { isLagBeyond, lagSeconds } from '../../../src/lib/chain-lag.ts';
import type { HostContext } from '../../../src/plugin/host.ts';
import { type ChainId, type Clock, defineRoute, type Route } from '../../../src/plugin/plugin.ts';
import { RequestError } from '../../../src/plugin/request.ts';
import { API, PAGE_ROUTE, type PageContext, REFUSALS } from './common.ts';

export interface Live {
  readonly route: Route;
  /** Ends all streams: they would hold up the end of the daemon. */
  close(): void;
}

const CHAINS: readonly ChainId[] = ['main', 'devnet'];

/** Server-sent events with what changes by itself: where the chains stand, and the upstreams. */
export function createLive(
  context: PageContext,
  ctx: Pick<HostContext, 'chain' | 'upstreams' | 'clock' | 'core'>,
): Live {
  const { config, guard } = context;
  const { maxReadyLagSeconds: seconds, maxReadyLagSlots: slots } = ctx.core.follow;
  const maxLag = { seconds, slots };
  const streams = new Set<Readable>();
  let isClosed = false;

  const snapshot = () => ({
    at: ctx.clock.now(),
    chains: CHAINS.flatMap((id) => {
      const status = ctx.chain(id)?.status();
      return status === undefined
        ? []
        : [{ ...status, lagSeconds: lagSeconds(status), isLate: isLagBeyond(status, maxLag) }];
    }),
    upstreams: CHAINS.flatMap((id) => (ctx.upstreams(id)?.states() ?? []).map((state) => ({ chain: id, ...state }))),
  });

  const route = defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/live`,
    summary: 'Live values as server-sent events',
    replies: { 200: Type.String({ contentMediaType: 'text/event-stream' }), ...REFUSALS },
    handler(request) {
      const { ended } = guard.enter(request);
      if (isClosed || streams.size >= config.maxLiveStreams) throw new RequestError(503, 'Too many live pages');
      const stream = makeStream(ctx.clock, config.liveIntervalMs, ended, () => {
        guard.enter(request);
        return `event: status\ndata: ${JSON.stringify(snapshot())}\n\n`;
      });
      streams.add(stream);
      stream.once('close', () => streams.delete(stream));
      return { status: 200, stream, contentType: 'text/event-stream; charset=utf-8' };
    },
  });
  return {
    route,
    close() {
      isClosed = true;
      for (const stream of streams) stream.destroy();
    },
  };
}

/** Gives a text at once, and every interval; a reader that does not read gets no more. Ends when there is none, and with the session. */
function makeStream(clock: Clock, everyMs: number, ended: AbortSignal, next: () => string): Readable {
  let cancel = (): void => {};
  let isOver = false;
  const stream = new Readable({
    read() {
      cancel();
      cancel = clock.timeout(started ? everyMs : 0, push);
      started = true;
    },
    destroy(_error, done) {
      cancel();
      ended.removeEventListener('abort', push);
      done(null);
    },
  });
  let started = false;
  ended.addEventListener('abort', push, { once: true });
  function push(): void {
    cancel();
    if (isOver || stream.destroyed) return;
    let text: string | null = null;
    try {
      text = next();
    } catch {
      // Nobody is logged in any more.
    }
    isOver = text === null;
    stream.push(text);
  }
  return stream;
}
