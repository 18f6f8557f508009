import { Readable } from 'node:stream';
import { Type } from '@sinclair/typebox';
import { type ChainId, type Clock, defineRoute, type PluginContext, type Route } from '../../../src/kernel/plugin.ts';
import { RequestError } from '../../../src/kernel/request.ts';
import { API, PAGE_ROUTE, type PageContext, REFUSALS } from './common.ts';

export interface Live {
  readonly route: Route;
  /** Ends all streams: they would hold up the end of the daemon. */
  close(): void;
}

const CHAINS: readonly ChainId[] = ['main', 'devnet'];

/** Server-sent events with what changes by itself: where the chains stand, and the upstreams. */
export function createLive(context: PageContext, ctx: Pick<PluginContext, 'chain' | 'upstreams' | 'clock'>): Live {
  const { config, guard } = context;
  const streams = new Set<Readable>();
  let isClosed = false;

  const snapshot = () => ({
    at: ctx.clock.now(),
    chains: CHAINS.flatMap((id) => ctx.chain(id)?.status() ?? []),
    upstreams: CHAINS.flatMap((id) => (ctx.upstreams(id)?.states() ?? []).map((state) => ({ chain: id, ...state }))),
  });

  const route = defineRoute({
    ...PAGE_ROUTE,
    method: 'GET',
    path: `${API}/live`,
    summary: 'Live values as server-sent events',
    replies: { 200: Type.String({ contentMediaType: 'text/event-stream' }), ...REFUSALS },
    handler(request) {
      // Sessions that end while it runs end it with the next look.
      guard.enter(request);
      if (isClosed || streams.size >= config.maxLiveStreams) throw new RequestError(503, 'Too many live pages');
      const stream = makeStream(ctx.clock, config.liveIntervalMs, () => {
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

/** Gives a text at once, and every interval; a reader that does not read gets no more. Ends when there is none. */
function makeStream(clock: Clock, everyMs: number, next: () => string): Readable {
  let cancel = (): void => {};
  const stream = new Readable({
    read() {
      cancel();
      cancel = clock.timeout(started ? everyMs : 0, push);
      started = true;
    },
    destroy(_error, done) {
      cancel();
      done(null);
    },
  });
  let started = false;
  function push(): void {
    let text: string | null = null;
    try {
      text = next();
    } catch {
      // Nobody is logged in any more.
    }
    if (!stream.destroyed) stream.push(text);
  }
  return stream;
}
